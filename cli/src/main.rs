//! The program `scheidegg`: photons from frames, on the command line.

mod args;
mod backends;
mod bench;
mod compare;
mod darks;
mod demo;
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

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Find(args) => find::run(&args),
        Command::Train(args) => train::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Info(args) => info::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Backends(args) => backends::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
