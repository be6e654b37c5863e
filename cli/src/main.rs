//! The program `scheidegg`: photons from frames, on the command line.

mod args;
mod backends;
mod bench;
mod compare;
mod darks;
mod demo;
mod drift;
mod failure;
mod find;
mod info;
mod input;
mod places;
mod plot;
mod progress;
mod provenance;
mod report;
mod say;
mod simulate;
mod stop;
mod summary;
mod train;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};
use failure::Failure;

fn main() -> ExitCode {
    stop::catch_limits();
    let command = match Cli::try_parse() {
        Ok(cli) => cli.command,
        Err(said) => return ExitCode::from(say::status(answer(&said))),
    };
    let outcome = match command {
        Command::Find(args) => find::run(&args),
        Command::Train(args) => train::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Info(args) => info::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Backends(args) => backends::run(&args),
    };
    ExitCode::from(say::status(outcome.map_or_else(Failure::report, |()| 0)))
}

/// Prints what the parser of the command line has to say, help or a complaint, and gives the exit status.
fn answer(said: &clap::Error) -> u8 {
    let printed = said.print();
    if !said.use_stderr() {
        say::written(printed);
    }
    u8::try_from(said.exit_code()).unwrap_or(2)
}
