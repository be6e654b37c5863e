//! The conformance suite on every backend of the project.

use scheidegg::Backend;
use scheidegg_conformance::suite::{self, Options};
use scheidegg_cpu::OracleBackend;

/// One test a backend: name of the test, how the backend is made.
macro_rules! conforms {
    ($($test:ident: $backend:expr;)+) => {
        $(#[test]
        fn $test() {
            let backend: Box<dyn Backend> = Box::new($backend);
            suite::run(backend.as_ref(), &Options::default()).assert();
        })+
    };
}

// Every backend of the registry has its line here.
conforms! {
    oracle: OracleBackend::new();
    oracle_with_2_threads: OracleBackend::with_threads(2);
    oracle_with_3_threads: OracleBackend::with_threads(3);
    oracle_with_7_threads: OracleBackend::with_threads(7);
}
