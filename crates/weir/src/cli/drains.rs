//! Arguments of `weir drains`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{ApiArgs, Output};

/// `weir drains ...`.
#[derive(Debug, Subcommand)]
pub(crate) enum DrainsCommand {
    /// Print the drains and their books.
    List {
        #[command(flatten)]
        api: ApiArgs,
        /// Output format.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Add a drain; it is kept until it is removed.
    ///
    /// Without --app, --space and --organization it receives the records of all applications.
    Add(AddDrainArgs),
    /// Remove a drain that was added with `add`; its waiting records are discarded and counted.
    Remove {
        /// ID of the drain.
        id: String,
        #[command(flatten)]
        api: ApiArgs,
    },
    /// Pause a drain; its records wait on disk.
    Pause {
        /// ID of the drain.
        id: String,
        #[command(flatten)]
        api: ApiArgs,
    },
    /// Resume a drain that was paused.
    Resume {
        /// ID of the drain.
        id: String,
        #[command(flatten)]
        api: ApiArgs,
    },
    /// Open a connection to the destination of a drain, without sending anything.
    Test {
        /// ID of the drain.
        id: String,
        #[command(flatten)]
        api: ApiArgs,
    },
}

/// `weir drains add ...`.
#[derive(Debug, Args)]
pub(crate) struct AddDrainArgs {
    /// Where the records go: syslog://, syslog-tls://, https:// or https-batch://.
    pub(crate) url: String,
    /// ID of an application.
    #[arg(long, group = "selects")]
    pub(crate) app: Option<String>,
    /// ID of a space.
    #[arg(long, group = "selects")]
    pub(crate) space: Option<String>,
    /// ID of an organization.
    #[arg(long, group = "selects")]
    pub(crate) organization: Option<String>,
    /// Host name in messages whose record has no application in its tags.
    #[arg(long)]
    pub(crate) hostname: Option<String>,
    /// PEM file of the client certificate.
    #[arg(long, value_name = "FILE")]
    pub(crate) cert_file: Option<PathBuf>,
    /// PEM file of the client certificate's private key.
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// PEM file of CA certificates to trust for the drain, in addition to the system's.
    #[arg(long, value_name = "FILE")]
    pub(crate) drain_ca_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) api: ApiArgs,
}
