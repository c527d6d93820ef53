//! Examples of the proxy's commands.

use cli::examples::Examples;

/// One for each command.
pub const EXAMPLES: &[Examples] = &[
    of(
        "media",
        &["millrace media sessions", "millrace media streams --watch", "millrace media origins drain cameras/a"],
    ),
    of("media sessions", &["millrace media sessions", "millrace media sessions --watch"]),
    of("media streams", &["millrace media streams", "millrace media streams --json"]),
    of("media origins", &["millrace media origins", "millrace media origins drain cameras/a"]),
    of("media origins drain", &["millrace media origins drain cameras/a"]),
    of("media origins down", &["millrace media origins down cameras/a"]),
    of("media origins ready", &["millrace media origins ready cameras/a"]),
    of("media peers", &["millrace media peers", "millrace media peers door"]),
    of(
        "media cache",
        &["millrace media cache ls", "millrace media cache export /var/lib/millrace/media 1795688019169300 door.ts"],
    ),
    of("media cache ls", &["millrace media cache ls", "millrace media cache ls --watch"]),
    of("media cache show", &["millrace media cache show 1795688019169300"]),
    of("media cache pin", &["millrace media cache pin 1795688019169300"]),
    of("media cache unpin", &["millrace media cache unpin 1795688019169300"]),
    of("media cache rm", &["millrace media cache rm 1795688019169300"]),
    of(
        "media cache export",
        &[
            "millrace media cache export /var/lib/millrace/media 1795688019169300 door.ts",
            "millrace media cache export /var/lib/millrace/media 1795688019169300 --format pcap - | tshark -r -",
        ],
    ),
    of("media cache check", &["millrace media cache check /var/lib/millrace/media"]),
    of("media kill", &["millrace media kill 12"]),
];

const fn of(command: &'static str, lines: &'static [&'static str]) -> Examples {
    Examples { command, lines }
}
