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
    let bearer = file("bearer", "Bearer 0123456789abcdef");
    let twice =
        format!("{good}\n{}", good.replace("tokens", "read_tokens").replace("[api.access]\n", ""));
    let of_readers = short.replace("[api.access]", "[loggregator.access]");
    let alone = format!("{good}\ncloud_controller = \"https://api.example\"");
    check(&[
        ("[api.access]", 1, "api.access denies all access", "add tokens"),
        (&short, 2, "a token is shorter than 16 characters", "openssl rand"),
        (&empty, 2, "a token is empty, so every client could read everything", "single commas"),
        (&bearer, 2, "a token begins with \"bearer\"", "openssl rand"),
        (&twice, 3, "a token is also in tokens", "remove it"),
        (&of_readers, 2, "a token is shorter than 16 characters", "openssl rand"),
        (&open, 2, "tokens and records cross the network unencrypted", "proxy"),
        (&alone, 3, "api.access.cloud_controller requires uaa", "add uaa"),
    ]);
}

#[test]
fn certificates_of_the_api_that_cannot_be_used_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        path.display().to_string()
    };
    let tls =
        |cert: &str, key: &str| format!("[api.tls]\ncert_file = \"{cert}\"\nkey_file = \"{key}\"");
    let key = file("key", "-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n");
    let absent = tls("/nonexistent/tls.crt", &key);
    let empty = tls(&file("empty", "nothing"), &key);
    let broken = file("broken", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n");
    let broken = tls(&broken, &key);
    // Valid PEM, but nothing that can sign, as an RSA key that is too short.
    let pem = |what: &str| format!("-----BEGIN {what}-----\nMAA=\n-----END {what}-----\n");
    let weak = tls(&file("cert", &pem("CERTIFICATE")), &file("weak", &pem("PRIVATE KEY")));
    check(&[
        (&absent, 2, "/nonexistent/tls.crt could not be read", ""),
        (&empty, 2, "does not contain a PEM certificate", ""),
        (&broken, 1, "api.tls cannot be used", ""),
        (&weak, 1, "create an RSA key of 2048 to 4096 bits", ""),
        (&format!("[api.tls]\nkey_file = \"{key}\""), 1, "cert_file", ""),
    ]);
}
