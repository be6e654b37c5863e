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

/// Parameters of the library, and the options that set them.
const FINDER: &[(&str, &str)] = &[
    ("cluster size", "--size"),
    ("n_sigma", "--n-sigma"),
    ("noise_floor_adu", "--noise-floor"),
    ("lanes", "--lanes"),
    ("pedestal_samples", "--pedestal-samples"),
    ("test2", "--test2"),
    ("backend", "--backend"),
    ("threads", "--threads"),
    ("mask", "--mask"),
];

/// The same for a simulation.
const SIMULATION: &[(&str, &str)] = &[
    ("frame shape", "--rows and --cols"),
    ("energy_kev", "--energy"),
    ("weight", "--energy"),
    ("lines", "--energy"),
    ("photons_per_frame", "--photons"),
    ("pixel_um", "--pixel"),
    ("cloud_um", "--cloud"),
    ("gain_adu_per_kev", "--gain"),
    ("gain_spread", "--gain-spread"),
    ("fano", "--fano"),
    ("pedestal_adu", "--pedestal"),
    ("pedestal_spread_adu", "--pedestal-spread"),
    ("noise_adu", "--noise"),
    ("noise_spread_adu", "--noise-spread"),
    ("common_mode_adu", "--common-mode"),
    ("drift_adu_per_1000_frames", "--drift"),
    ("hot_pixels and dead_pixels", "--hot and --dead"),
    ("packet_loss", "--packet-loss"),
    ("bits", "--bits"),
];

/// What the library says of a parameter in a sentence, in the words of the command line.
const WORDS: &[(&str, &str)] = &[
    ("or a window of ", "or --pedestal-samples "),
    ("gain = keep (14 bits of charge) or none", "--gain keep (14 bits of charge) or --gain none"),
    ("board = moench03 or moench04", "--board moench03 or --board moench04"),
    ("board = ", "--board "),
    ("force = true", "--force"),
    (": ask for 0 to ", ": give --first 0 to "),
    ("use backend cpu", "use --backend cpu"),
    ("or update frozen", "or --update frozen"),
    ("or precision f64f32", "or --precision f64f32"),
    ("Mask it", "Give a --mask for it"),
    ("Mask them", "Give a --mask for them"),
    ("or set a noise floor of 1 ADU", "or --noise-floor 1"),
];

/// A sentence of the library in the words of the command line.
pub fn in_options(text: &str) -> String {
    WORDS.iter().fold(text.to_string(), |text, (library, program)| text.replace(library, program))
}

/// For what stems from arguments: a parameter outside its range is wrong usage, anything else a failure.
pub fn usage(e: Error) -> Failure {
    usage_of(FINDER, e)
}

/// The same for the parameters of a simulation.
pub fn usage_of_simulation(e: Error) -> Failure {
    usage_of(SIMULATION, e)
}

fn usage_of(options: &[(&str, &str)], e: Error) -> Failure {
    match e {
        Error::Param { name, found, expected } => {
            let option = options.iter().find(|(parameter, _)| *parameter == name);
            let name = option.map_or(name, |(_, option)| option.to_string());
            Failure::Usage(Error::Param { name, found, expected })
        }
        e => Failure::Failed(e),
    }
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
                tell!("scheidegg: {}", in_options(&e.to_string()));
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

#[cfg(test)]
mod tests {
    use super::*;
    use scheidegg::io::simulate::Simulation;
    use scheidegg::{ClusterSize, Params, Shape};

    /// Every parameter that the library can find fault with has its option.
    #[test]
    fn parameters_have_options() {
        let shape = Shape { rows: 10, cols: 10 };
        let good = || Params::new(ClusterSize { w: 3, h: 3 });
        for params in [
            Params { n_sigma: -1.0, ..good() },
            Params { noise_floor_adu: 1e9, ..good() },
            Params { lanes: 0, ..good() },
            Params { pedestal_samples: 1 << 40, ..good() },
            Params { test2: true, size: ClusterSize { w: 4, h: 3 }, ..good() },
            Params { size: ClusterSize { w: 16, h: 3 }, ..good() },
        ] {
            let e = usage(params.validate(shape).unwrap_err());
            assert!(
                matches!(&e, Failure::Usage(Error::Param { name, .. }) if name.starts_with("--")),
                "{e:?}"
            );
        }
    }

    /// The same for those of a simulation that a command line sets: each is made wrong in turn.
    #[test]
    fn parameters_of_a_simulation_have_options() {
        let good = serde_json::to_value(Simulation::default()).unwrap();
        let only_in_files = ["hot_noise_factor", "rows_per_packet", "seed"];
        let mut seen = 0;
        for (name, value) in good.as_object().unwrap() {
            let mut wrong = good.clone();
            wrong[name] = match value {
                serde_json::Value::Array(_) => serde_json::json!([]),
                _ if name == "drift_adu_per_1000_frames" => serde_json::json!(1e9),
                _ if value.is_u64() => serde_json::json!(1u64 << 40),
                _ => serde_json::json!(-1.0),
            };
            if name == "bits" || name == "rows_per_packet" {
                wrong[name] = serde_json::json!(0);
            }
            let Ok(simulation) = serde_json::from_value::<Simulation>(wrong) else { continue };
            let Err(e) = simulation.validate() else { continue };
            seen += 1;
            let e = usage_of_simulation(e);
            let told = matches!(&e, Failure::Usage(Error::Param { name, .. }) if name.starts_with("--"));
            assert!(told || only_in_files.contains(&name.as_str()), "{name}: {e:?}");
        }
        assert!(seen >= 18, "{seen} parameters");
    }
}
