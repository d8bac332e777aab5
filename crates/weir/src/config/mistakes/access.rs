//! Mistakes in access control, and in the certificates of the API.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use super::check;

#[test]
fn access_control_that_protects_nothing_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, tokens: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, tokens).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        format!("[api.access]\ntokens = {{ file = \"{}\" }}", path.display())
    };
    let good = file("good", "0123456789abcdef");
    let short = file("short", "0123456789abcdef,0123456789");
    let empty = file("empty", "0123456789abcdef,,0123456789abcdef");
    let open = format!("[api]\nlisten = \"0.0.0.0:7080\"\n{good}");
    let alone = format!("{good}\ncloud_controller = \"https://api.example\"");
    check(&[
        ("[api.access]", 1, "api.access denies all access", "add tokens"),
        (&short, 2, "a token is shorter than 16 characters", "openssl rand"),
        (&empty, 2, "a token is empty, so every client could read everything", "single commas"),
        (&open, 2, "tokens and records cross the network unencrypted", "proxy"),
        (&alone, 3, "api.access.cloud_controller requires uaa", "add uaa"),
    ]);
}

#[test]
fn certificates_of_the_api_that_cannot_be_used_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tls.crt");
    std::fs::write(&file, "no certificate").unwrap();
    let path = file.display();
    let absent = "[api.tls]\ncert_file = \"/nonexistent/tls.crt\"\nkey_file = \"/nonexistent/key\"";
    let wrong = format!("[api.tls]\ncert_file = \"{path}\"\nkey_file = \"{path}\"");
    let other = format!("{wrong}\nclient_ca_file = \"{path}\"");
    check(&[
        (absent, 2, "/nonexistent/tls.crt could not be read", ""),
        (&wrong, 2, "tls.crt", ""),
        (&other, 4, "unknown key \"client_ca_file\"", ""),
        ("[api.tls]\nkey_file = \"/x\"", 1, "cert_file", ""),
    ]);
}
