//! An example at the end of every help. A test runs each of them.

pub const FIND: &str = "\
Examples:
  scheidegg find --dark dark.npy --data data.npy --out clusters.npz --report report
  scheidegg find --pedestal pedestal.npz --mask mask.npy --data data.npy --out c.clust";

pub const TRAIN: &str = "\
Example:
  scheidegg train --dark dark.npy --out pedestal.npz --write-mask mask.npy";

pub const DEMO: &str = "\
Example:
  scheidegg demo --side 200 --frames 500";

pub const SIMULATE: &str = "\
Examples:
  scheidegg simulate --out simulated --rows 64 --cols 48 --darks 200 --frames 100
  scheidegg simulate --out simulated --format raw --darks 100 --frames 10 --energy 17.5";

pub const INFO: &str = "\
Examples:
  scheidegg info data.npy
  scheidegg info clusters.clust --size 5";

pub const COMPARE: &str = "\
Examples:
  scheidegg compare clusters.npz clusters.npz
  scheidegg compare cpu oracle --dark dark.npy --data data.npy --frames 20";

pub const BENCH: &str = "\
Example:
  scheidegg bench --dark dark.npy --data data.npy --threads 1,2 --plot threads.svg";

pub const BACKENDS: &str = "\
Example:
  scheidegg backends --shape 512x1024 --precision f64";

pub const COMPLETIONS: &str = "\
Example:
  scheidegg completions bash > scheidegg.bash";

pub const MAN: &str = "\
Example:
  scheidegg man man1";
