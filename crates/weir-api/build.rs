//! Rebuilds the crate when the files of the page change.

fn main() {
    // A path that does not exist would cause a rebuild each time.
    let built = "../../page/dist";
    let watched = if std::path::Path::new(built).exists() { built } else { "../../page" };
    println!("cargo::rerun-if-changed={watched}");
}
