//! Reads `[controllers.splice.pools]`: servers, how they are chosen, seen and checked.

use super::*;

impl Reader<'_, '_> {
    pub(super) fn pool(
        &mut self,
        name: &str,
        value: &Value,
        path: &Path,
        interfaces: &[Arc<Interface>],
    ) -> Option<Pool> {
        let table = document::table(value, path, self.errors)?;
        document::only(table, path, &["balance", "servers", "check", "addressing", "reuse", "preconnect"], self.errors);
        let names = [
            ("round_robin", Balance::RoundRobin),
            ("least_connections", Balance::LeastConnections),
            ("source", Balance::Source),
        ];
        let balance = self.one_of(table, path, "balance", &names, Balance::RoundRobin);
        let names = [("full_nat", Addressing::FullNat), ("transparent", Addressing::Transparent)];
        let addressing = self.one_of(table, path, "addressing", &names, Addressing::FullNat);
        let names = [("never", Reuse::Never), ("safe", Reuse::Safe), ("always", Reuse::Always)];
        let reuse = self.one_of(table, path, "reuse", &names, Reuse::Safe);
        let preconnect = self.number(table, path, "preconnect", 0, MOST_IDLE as u64, 0) as usize;
        if preconnect > 0 && (addressing == Addressing::Transparent || reuse == Reuse::Never) {
            let problem = "no request could use such connections";
            let accepted = "`addressing = \"full_nat\"`, and `reuse` other than \"never\"";
            self.errors.add(value.span().start, &path.key("preconnect"), problem, accepted);
        }
        let check = self.check(table.get("check"), &path.key("check"));
        let path = path.key("servers");
        let Some(list) = table.get("servers") else {
            self.errors.add(value.span().start, &path, "is missing", "at least one server");
            return None;
        };
        let values = document::array(list, &path, self.errors)?;
        if values.is_empty() || values.len() > MOST_SERVERS {
            let problem = format!("{} servers", values.len());
            self.errors.add(list.span().start, &path, problem, format!("1 to {MOST_SERVERS}"));
        }
        let mut servers: Vec<Server> = Vec::new();
        for (index, value) in values.iter().enumerate() {
            let path = path.index(index);
            let Some(server) = self.server(value, &path, interfaces) else { continue };
            if servers.iter().any(|own| own.name == server.name) {
                let problem = format!("there are two servers {:?}", server.name);
                self.errors.add(value.span().start, &path, problem, "names that differ");
            }
            servers.push(server);
        }
        Some(Pool { name: name.into(), balance, servers, check: check?, addressing, reuse, preconnect })
    }

    fn server(&mut self, value: &Value, path: &Path, interfaces: &[Arc<Interface>]) -> Option<Server> {
        let table = document::table(value, path, self.errors)?;
        document::only(table, path, &["name", "address", "weight"], self.errors);
        let accepted = "an address with a port, such as \"10.0.2.11:80\" or \"[2001:db8:2::11]:80\"";
        let Some(given) = table.get("address") else {
            self.missing(value, path, "address", accepted);
            return None;
        };
        let (address, port) = self.parsed(given, &path.key("address"), accepted, endpoint)?;
        let name = document::text_at(table, path, "name", "a name", self.errors);
        let weight = self.number(table, path, "weight", 0, 1000, 1) as u32;
        let v4 = |address: &Ipv6Addr| address.to_ipv4_mapped().is_some();
        let on_link = interfaces.iter().position(|own| own.addresses.iter().any(|prefix| holds(*prefix, address)));
        let by_gateway = || {
            interfaces.iter().enumerate().find_map(|(index, own)| {
                own.gateways.iter().find(|gateway| v4(gateway) == v4(&address)).map(|gateway| (index, *gateway))
            })
        };
        let by_kernel = || interfaces.iter().position(|own| own.is_shared).map(|index| (index, address));
        let found = on_link.map(|index| (index, address)).or_else(by_gateway).or_else(by_kernel);
        let Some((interface, next_hop)) = found else {
            let problem = "no interface has an address with this server's prefix, and none a gateway";
            self.errors.add(given.span().start, &path.key("address"), problem, "a server that can be reached");
            return None;
        };
        let own = interfaces[interface].addresses.iter().map(|(own, _)| *own);
        let sources: Vec<Ipv6Addr> = own.filter(|own| v4(own) == v4(&address)).collect();
        let is_routed = interfaces[interface].is_shared && sources.is_empty();
        if sources.is_empty() && !is_routed {
            let problem = "the interface to this server has no address of its version";
            self.errors.add(given.span().start, &path.key("address"), problem, "an interface with such an address");
            return None;
        }
        let name = name.unwrap_or_else(|| text_of(address, port));
        Some(Server { name, address, port, weight, interface, next_hop, is_routed, sources })
    }

    fn check(&mut self, value: Option<&Value>, path: &Path) -> Option<Check> {
        let mut check = Check { http: None, interval: 2 * SECOND, timeout: SECOND, rise: 1, fall: 3 };
        let Some(value) = value else { return Some(check) };
        let table = document::table(value, path, self.errors)?;
        document::only(table, path, &["path", "host", "status", "interval", "timeout", "rise", "fall"], self.errors);
        check.interval = self.time(table, path, "interval", check.interval);
        check.timeout = self.time(table, path, "timeout", check.timeout);
        check.rise = self.number(table, path, "rise", 1, 100, 1) as u32;
        check.fall = self.number(table, path, "fall", 1, 100, 3) as u32;
        if let Some(value) = table.get("path") {
            let visible = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
            let accepted = "a path that begins with /";
            let asked = self.parsed(value, &path.key("path"), accepted, |text| {
                (text.starts_with('/') && visible(text)).then(|| text.to_owned())
            });
            let host = match table.get("host") {
                None => Some("health.check".to_owned()),
                Some(value) => self.parsed(value, &path.key("host"), "a host's name", |text| {
                    (!text.is_empty() && visible(text)).then(|| text.to_owned())
                }),
            };
            let status = self.number(table, path, "status", 100, 599, 200) as u16;
            check.http = Some(HttpCheck { path: asked?, host: host?, status });
        } else if let Some(key) = ["host", "status"].iter().find(|key| table.contains_key(**key)) {
            let problem = "means nothing without `path`";
            self.errors.add(value.span().start, &path.key(key), problem, "`path`: then the check asks for it");
        }
        Some(check)
    }
}
