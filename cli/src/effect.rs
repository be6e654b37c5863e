//! Options that have no effect beside the others are refused: whoever gives one expects something of it.
//!
//! One table. A rule says of some options of some subcommands where they do nothing, and why.

use std::path::{Path, PathBuf};

use clap::ArgMatches;
use clap::parser::ValueSource;
use scheidegg::Error;

use crate::failure::{Failure, Outcome};

/// Options of subcommands, and why they do nothing where they do nothing.
struct Rule {
    commands: &'static [&'static str],
    options: &'static [&'static str],
    idle: fn(&Given) -> Option<String>,
}

const FRAMES: &[&str] = &["find", "train", "compare", "bench"];
const BACKENDS: &[&str] = &["find", "compare", "bench", "demo", "backends"];

const RULES: &[Rule] = &[
    Rule { commands: &["compare"], options: OF_FRAMES, idle: |g| g.compares_files() },
    Rule {
        commands: &["compare"],
        options: &["size", "payload"],
        idle: |g| {
            let told =
                g.compares_files().is_some() && !["a", "b"].iter().any(|id| g.any_ends(id, &["clust"]));
            told.then(|| "both files say it themselves; only .clust files do not".into())
        },
    },
    Rule {
        commands: &["info"],
        options: &["size", "payload"],
        idle: |g| (!g.any_ends("files", &["clust"])).then(|| "only .clust files leave this open".into()),
    },
    Rule { commands: &["info"], options: &["roi"], idle: |g| g.without_raw(&["files"]) },
    Rule { commands: &["info"], options: &["dat_shape"], idle: |g| g.without_dat(&["files"]) },
    Rule { commands: FRAMES, options: &["roi", "board"], idle: |g| g.without_raw(&["dark", "data"]) },
    Rule { commands: FRAMES, options: &["dat_shape"], idle: |g| g.without_dat(&["dark", "data"]) },
    Rule {
        commands: &["find"],
        options: &["dark_frames", "pedestal_samples"],
        idle: |g| {
            g.is_given("pedestal")
                .then(|| "--pedestal brings a trained pedestal, no dark frames are read".into())
        },
    },
    Rule {
        commands: &["simulate"],
        options: &["packet_loss"],
        idle: |g| {
            let npy = g.word("format") == Some("npy".into());
            npy.then(|| ".npy files have no place for lost packets (--format raw has)".into())
        },
    },
    Rule {
        commands: &["bench"],
        options: &["no_clobber", "clean"],
        idle: |g| (!g.is_given("plot")).then(|| "without --plot nothing is written".into()),
    },
    Rule { commands: BACKENDS, options: &["threads"], idle: |g| g.without_backend(&["cpu", "oracle"]) },
    Rule { commands: BACKENDS, options: &["pin"], idle: |g| g.without_backend(&["cpu"]) },
    Rule {
        commands: &["completions", "man"],
        options: &["quiet", "verbose"],
        idle: |_| Some("there is nothing to be said beside what was asked for".into()),
    },
];

/// What only frames that are read have an effect on.
const OF_FRAMES: &[&str] = &[
    "dark",
    "first",
    "frames",
    "dark_frames",
    "keep_going",
    "force",
    "board",
    "gain",
    "roi",
    "dat_shape",
    "n_sigma",
    "update",
    "noise",
    "precision",
    "ties",
    "test2",
    "lanes",
    "noise_floor",
    "pedestal_samples",
    "mask",
    "threads",
    "pin",
];

/// Refuses the first option of the command line that has no effect beside the others.
pub fn check(matches: &ArgMatches) -> Outcome {
    let Some((command, matches)) = matches.subcommand() else { return Ok(()) };
    let given = Given { matches };
    for rule in RULES.iter().filter(|r| r.commands.contains(&command)) {
        for option in rule.options.iter().filter(|o| given.is_given(o)) {
            if let Some(why) = (rule.idle)(&given) {
                let option = option.replace('_', "-");
                return Err(Failure::Usage(Error::Other(format!("--{option} has no effect here: {why}"))));
            }
        }
    }
    Ok(())
}

/// The arguments of a subcommand.
struct Given<'a> {
    matches: &'a ArgMatches,
}

impl Given<'_> {
    /// Whether an argument stands on the command line. Not every subcommand has every one.
    fn is_given(&self, id: &str) -> bool {
        self.matches.try_contains_id(id).unwrap_or(false)
            && self.matches.value_source(id) == Some(ValueSource::CommandLine)
    }

    /// The values of an argument as they were typed, or their default.
    fn words(&self, id: &str) -> Vec<String> {
        let raw = self.matches.try_get_raw(id).ok().flatten();
        raw.into_iter().flatten().map(|w| w.to_string_lossy().into_owned()).collect()
    }

    fn word(&self, id: &str) -> Option<String> {
        self.words(id).into_iter().next()
    }

    /// Whether one of the files given to an argument has one of these endings.
    fn any_ends(&self, id: &str, endings: &[&str]) -> bool {
        let ending = |w: &String| Path::new(w).extension().map(|e| e.to_string_lossy().to_ascii_lowercase());
        self.words(id).iter().filter_map(ending).any(|e| endings.contains(&e.as_str()))
    }

    fn files(&self, ids: &[&str]) -> Vec<PathBuf> {
        ids.iter().flat_map(|id| self.words(id)).map(PathBuf::from).collect()
    }

    fn without_raw(&self, ids: &[&str]) -> Option<String> {
        let none = !self.files(ids).is_empty() && !ids.iter().any(|id| self.any_ends(id, &["json", "raw"]));
        none.then(|| "it is for raw runs, and none is read".into())
    }

    fn without_dat(&self, ids: &[&str]) -> Option<String> {
        let none = !self.files(ids).is_empty() && !ids.iter().any(|id| self.any_ends(id, &["dat"]));
        none.then(|| "it is for .dat files, and none is read".into())
    }

    fn compares_files(&self) -> Option<String> {
        (!self.is_given("data"))
            .then(|| "without --data two results are compared, and no frames are read".into())
    }

    /// Why an option for these backends does nothing, if the ones named on the command line are others.
    fn without_backend(&self, these: &[&str]) -> Option<String> {
        let mut named = self.words("backend");
        named.extend(self.words("a"));
        named.extend(self.words("b"));
        // `backends` lists all, and auto may take any; what it took is told after the run.
        let others =
            !named.is_empty() && !named.iter().any(|n| n == scheidegg::AUTO || these.contains(&n.as_str()));
        others
            .then(|| format!("it is for the backend {}, not for {}", these.join(" or "), named.join(" and ")))
    }
}
