//! Chores of the workspace: `cargo xtask --help`.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::{Args, Parser, Subcommand};

mod assemble;
mod compiler;
mod module;
mod mutants;
mod pack;
mod ptx;
mod sass;

/// Chores of the workspace.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Compile the kernels to PTX and put it into kernels-rs/ptx, or check what lies there.
    Ptx(PtxArgs),
    /// Put stripped release executables into carry/, for a GPU machine without Rust.
    Pack(pack::PackArgs),
    /// Change the sources in one place at a time and see whether a test notices.
    Mutants(mutants::MutantsArgs),
}

/// What `ptx` does; without an option it compiles.
#[derive(Args)]
struct PtxArgs {
    /// Compare the committed PTX with its sources and, where the compiler is there, with a fresh build. Exit status 3:
    /// only the sources could be compared.
    #[arg(long)]
    check: bool,
    /// With --check: a missing compiler is a failure.
    #[arg(long, requires = "check")]
    require: bool,
    /// Assemble the PTX for every supported chip; spilled registers are a failure.
    #[arg(long)]
    assemble: bool,
    /// The same, and print registers, shared memory and occupancy of every entry and chip.
    #[arg(long)]
    resources: bool,
    /// Print the machine instructions of an entry by pipe.
    #[arg(long, value_name = "ENTRY")]
    sass: Option<String>,
    /// Only this chip for --assemble, --resources and --sass (sm_90, say).
    #[arg(long, value_name = "CHIP")]
    chip: Option<String>,
}

/// What a chore ends with: success, or a message and an exit status.
type Outcome<T = ()> = Result<T, Failure>;

/// Why a chore failed.
struct Failure {
    message: String,
    status: u8,
}

impl<T: Into<String>> From<T> for Failure {
    fn from(message: T) -> Self {
        Failure { message: message.into(), status: 1 }
    }
}

/// The root of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

/// Runs a command and gives what it printed on standard output; its errors go to the terminal or into the message.
fn output(command: &mut Command) -> Outcome<String> {
    let shown = format!("{command:?}");
    let out = command.output().map_err(|e| format!("{shown}: {e}"))?;
    if !out.status.success() {
        let errors = String::from_utf8_lossy(&out.stderr);
        return Err(format!("{shown}: {}\n{}", out.status, errors.trim_end()).into());
    }
    String::from_utf8(out.stdout).map_err(|e| format!("{shown}: {e}").into())
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().chore {
        Chore::Ptx(args) => ptx::run(&args),
        Chore::Pack(args) => pack::run(&args),
        Chore::Mutants(args) => mutants::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { message, status }) => {
            eprintln!("xtask: {message}");
            ExitCode::from(status)
        }
    }
}
