//! `weir man`: the manual page of a command, generated from its help text.

use anyhow::Result;
use clap::Command;

use crate::exit::{Exit, ExitError};

/// The page of the command that the names select.
pub(crate) fn page(mut command: Command, names: &[String]) -> Result<String> {
    command.build();
    for name in names {
        let Some(found) = command.find_subcommand(name) else {
            let message = format!("there is no command {:?}", names.join(" "));
            return Err(ExitError::with(Exit::NotFound, message));
        };
        command = found.clone();
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}
