//! Exchanges for collectors of IPFIX: a flow for each request that is over, as the access log has a line.

use std::net::{Ipv6Addr, SocketAddr};
use std::time::{Duration, SystemTime};

use collectors::ipfix::{End, Flow};
use wire::flow_key::FlowKey;

use crate::cluster::Cluster;
use crate::connection::exchange::{Ending, Finished};

/// TCP's number.
const TCP: u8 = 6;

/// Of an exchange of a client with a service.
pub fn of(cluster: &Cluster, client: &FlowKey, service: usize, finished: &Finished) -> Flow {
    let Finished { exchange, ending, duration, late } = finished;
    let address = |address: Ipv6Addr, port: u16| SocketAddr::from((address.to_canonical(), port));
    let chosen = exchange.server.map(|number| &cluster.servers[number].server);
    let began = SystemTime::now().checked_sub(Duration::from_nanos(*late)).unwrap_or(SystemTime::UNIX_EPOCH);
    Flow {
        client: address(client.src, client.src_port),
        server: address(client.dst, client.dst_port),
        chosen: chosen.map(|own| address(own.address, own.port)),
        protocol: TCP,
        time: [began, began + Duration::from_nanos(*duration)],
        octets: [exchange.up.bytes, exchange.down.bytes],
        packets: [0; 2],
        end: match ending {
            Ending::Complete | Ending::Answered => End::Done,
            Ending::Timeout => End::Idle,
            Ending::Client | Ending::Server | Ending::Killed => End::Forced,
        },
        status: exchange.status,
        application: cluster.settings.services.get(service).map(|own| own.name.clone()).unwrap_or_default(),
    }
}
