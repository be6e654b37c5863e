//! How the program ends when it cannot do what it was asked.

use std::process::ExitCode;

use scheidegg::Error;

/// Why the program ends.
#[derive(Debug)]
pub enum Failure {
    /// Something failed: exit status 1.
    Failed(Error),
    /// The arguments cannot be: exit status 2.
    Usage(Error),
    /// A comparison found a difference, and has said so: exit status 1.
    Differs,
}

/// The result of a subcommand.
pub type Outcome<T = ()> = Result<T, Failure>;

impl From<Error> for Failure {
    fn from(e: Error) -> Self {
        Failure::Failed(e)
    }
}

/// For what stems from arguments: a parameter outside its range is wrong usage, anything else a failure.
pub fn usage(e: Error) -> Failure {
    match e {
        Error::Param { .. } => Failure::Usage(e),
        e => Failure::Failed(e),
    }
}

impl Failure {
    /// Says it on stderr and gives the exit status.
    pub fn report(self) -> ExitCode {
        match self {
            Failure::Failed(e) => {
                eprintln!("scheidegg: {e}");
                ExitCode::from(1)
            }
            Failure::Usage(e) => {
                eprintln!("scheidegg: {e}");
                ExitCode::from(2)
            }
            Failure::Differs => ExitCode::from(1),
        }
    }
}
