//! How the program ends when it cannot do what it was asked.

use scheidegg::Error;

use crate::say::tell;
use crate::stop;

/// Why the program ends.
#[derive(Debug)]
pub enum Failure {
    /// Something failed: exit status 1.
    Failed(Error),
    /// The arguments cannot be: exit status 2.
    Usage(Error),
    /// A comparison found a difference, and has said so: exit status 1.
    Differs,
    /// A signal ended the run at a whole frame; the results are written and everything is said: exit status 128 + signal.
    Stopped,
    /// Something is wrong with a file, and that has been said: exit status 1.
    Said,
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
        Error::Param { name, found, expected } => {
            Failure::Usage(Error::Param { name: option(name), found, expected })
        }
        e => Failure::Failed(e),
    }
}

/// A parameter as it is spelt on the command line.
fn option(name: String) -> String {
    match name.as_str() {
        "noise_floor_adu" => "--noise-floor".into(),
        "n_sigma" | "lanes" | "pedestal_samples" | "test2" | "backend" | "threads" => {
            format!("--{}", name.replace('_', "-"))
        }
        _ => name,
    }
}

/// What the library says of a parameter, in the words of the command line.
const WORDS: &[(&str, &str)] = &[
    ("or a window of ", "or --pedestal-samples "),
    ("gain = keep (14 bits of charge) or none", "--gain keep (14 bits of charge) or --gain none"),
    ("board = moench03 or moench04", "--board moench03 or --board moench04"),
    ("board = ", "--board "),
    ("force = true", "--force"),
];

/// The words of the library in those of the command line.
pub fn in_options(text: &str) -> String {
    WORDS.iter().fold(text.to_string(), |text, (library, program)| text.replace(library, program))
}

impl Failure {
    /// Says it on stderr and gives the exit status.
    pub fn report(self) -> u8 {
        match self {
            Failure::Failed(Error::Stopped) => {
                tell!("scheidegg: stopped by the user ({}) before there was a result", stop::by());
                stopped()
            }
            Failure::Failed(e) => {
                tell!("scheidegg: {}", in_options(&e.to_string()));
                1
            }
            Failure::Usage(e) => {
                tell!("scheidegg: {e}");
                2
            }
            Failure::Differs | Failure::Said => 1,
            Failure::Stopped => stopped(),
        }
    }
}

/// The exit status of a run that a signal ended.
fn stopped() -> u8 {
    stop::signal().map_or(1, stop::Signal::status)
}
