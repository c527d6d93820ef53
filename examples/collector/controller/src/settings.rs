//! `[controllers.collector]` of a program's configuration.

use std::net::SocketAddr;
use std::sync::Arc;

use control::application::{CompiledSettings, Section};
use control::document::{self, Errors};

/// Where it listens unless the configuration says otherwise.
const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9180);

/// What `[controllers.collector]` says.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Where it listens.
    pub listen: SocketAddr,
}

/// What the settings make.
pub(crate) fn read(section: &Section, errors: &mut Errors) -> CompiledSettings<Settings> {
    const ACCEPTED: &str = "an address and a port, such as \"127.0.0.1:9180\"";
    let mut settings = Settings { listen: LISTEN };
    if let Some(table) = document::table(section.value, &section.path, errors) {
        document::only(table, &section.path, &["listen"], errors);
        if let Some(value) = table.get("listen") {
            let path = section.path.key("listen");
            match document::string(value, &path, ACCEPTED, errors).map(|text| (text, text.parse())) {
                Some((_, Ok(listen))) => settings.listen = listen,
                Some((text, Err(_))) => {
                    errors.add(value.span().start, &path, format!("{text:?} is no such address"), ACCEPTED)
                }
                None => {}
            }
        }
    }
    CompiledSettings { entries: Vec::new(), own: Some(Arc::new(settings)) }
}

/// The settings of what they make.
pub(crate) fn settings_of(compiled: &CompiledSettings<Settings>) -> Settings {
    compiled.own.as_deref().copied().unwrap_or(Settings { listen: LISTEN })
}
