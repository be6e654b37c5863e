//! The program `scheidegg`: photons from frames, on the command line.

mod args;
mod backends;
mod bench;
mod compare;
mod darks;
mod demo;
mod drift;
mod effect;
mod failure;
mod find;
mod info;
mod input;
mod places;
mod plan;
mod plot;
mod progress;
mod provenance;
mod report;
mod say;
mod shell;
mod simulate;
mod stop;
mod summary;
mod talk;
mod train;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use args::{Cli, Command};
use failure::{Failure, Outcome};

fn main() -> ExitCode {
    stop::catch_limits();
    let parsed = Cli::command().try_get_matches().and_then(|m| Ok((Cli::from_arg_matches(&m)?, m)));
    let (cli, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(said) => return ExitCode::from(say::status(answer(&said))),
    };
    talk::set(&cli.talk);
    let outcome = effect::check(&matches).and_then(|()| run(cli.command));
    ExitCode::from(say::status(outcome.map_or_else(Failure::report, |()| 0)))
}

fn run(command: Command) -> Outcome {
    match command {
        Command::Find(args) => find::run(&args),
        Command::Train(args) => train::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Info(args) => info::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Backends(args) => backends::run(&args),
        Command::Completions(args) => shell::completions(&args),
        Command::Man(args) => shell::man(&args),
    }
}

/// Prints what the parser of the command line has to say, help or a complaint, and gives the exit status.
fn answer(said: &clap::Error) -> u8 {
    let printed = said.print();
    if !said.use_stderr() {
        say::written(printed);
    }
    u8::try_from(said.exit_code()).unwrap_or(2)
}
