//! What README says of building against the library is true. Its examples are compiled as doc tests of the library.

use std::path::Path;

#[test]
fn the_dependency_lines_name_the_versions_that_the_library_takes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let read = |name: &str| std::fs::read_to_string(root.join(name)).unwrap();
    let (readme, manifest) = (read("README.md"), read("Cargo.toml"));
    let line = readme.lines().find(|l| l.starts_with("ndarray = ")).expect("the line for ndarray");
    assert!(manifest.lines().any(|l| l == line), "README says {line}");
    assert!(readme.contains("scheidegg = { path = \"../scheidegg/host\" }"));
    let channel = read("rust-toolchain.toml");
    assert!(readme.contains("`rust-toolchain.toml`") && channel.contains("channel"));
    // Every example is compiled.
    assert!(readme.matches("```rust,no_run").count() >= 3 && !readme.contains("rust,ignore"));
    for path in
        readme.split('`').skip(1).step_by(2).filter(|w| w.contains('/') && !w.contains([' ', '{', '*']))
    {
        let is_ours = ["docs/", "host/", "tests/", "benches/"].iter().any(|p| path.starts_with(p));
        assert!(!is_ours || root.join(path).exists(), "README names {path}, which is not there");
    }
}
