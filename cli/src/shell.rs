//! `completions` and `man`: what the command line says of itself.

use std::path::Path;

use clap::{Command, CommandFactory};
use scheidegg::io::Output;
use scheidegg::{Error, Result};

use crate::args::{Cli, CompletionsArgs, ManArgs};
use crate::failure::Outcome;
use crate::places;
use crate::say::{bytes, say};

/// Prints the completions for a shell.
pub fn completions(args: &CompletionsArgs) -> Outcome {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "scheidegg", &mut text);
    bytes(&text);
    Ok(())
}

/// Prints the manual page of the program, or writes those of all subcommands into a folder.
pub fn man(args: &ManArgs) -> Outcome {
    let mut program = Cli::command();
    program.build();
    let Some(folder) = &args.folder else {
        bytes(&page(&program)?);
        return Ok(());
    };
    places::folder(folder)?;
    write(folder, "scheidegg", &program)?;
    let mut pages = 1;
    for command in program.get_subcommands().filter(|c| c.get_name() != "help") {
        write(folder, &format!("scheidegg-{}", command.get_name()), command)?;
        pages += 1;
    }
    say!("written      {pages} pages to {}", folder.display());
    Ok(())
}

fn write(folder: &Path, name: &str, command: &Command) -> Result<()> {
    let mut out = Output::create(folder.join(format!("{name}.1")))?;
    out.write(&page(command)?)?;
    out.finish().map(|_| ())
}

fn page(command: &Command) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    let done = clap_mangen::Man::new(command.clone()).render(&mut text);
    done.map_err(|e| Error::Other(format!("the manual page: {e}")))?;
    Ok(text)
}
