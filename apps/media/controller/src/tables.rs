//! Entries of the program's tables as it has them (`apps/media/flow.baker`).

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use dataplane::controller::Record;
use wire::rtp::Rewrite;

/// An address as the program has it: that of IPv4 as `::ffff:a.b.c.d`.
pub fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

/// What the packets of a stream come with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// The origin.
    pub src: SocketAddr,
    /// The own address.
    pub dst: SocketAddr,
}

impl FlowKey {
    fn fields(&self) -> (Ipv6Addr, Ipv6Addr, u16, u16) {
        (mapped(self.src.ip()), mapped(self.dst.ip()), self.src.port(), self.dst.port())
    }
}

impl Record for FlowKey {
    const FIELDS: usize = 4;

    fn to_fields(&self, fields: &mut [u128]) {
        self.fields().to_fields(fields);
    }

    fn from_fields(fields: &[u128]) -> Option<Self> {
        let (src, dst, src_port, dst_port): (Ipv6Addr, Ipv6Addr, u16, u16) = Record::from_fields(fields)?;
        let own = |address: Ipv6Addr, port| SocketAddr::new(IpAddr::V6(address).to_canonical(), port);
        Some(FlowKey { src: own(src, src_port), dst: own(dst, dst_port) })
    }
}

/// A receiver, as members of groups are (`receiver_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receiver {
    /// The receiver.
    pub to: SocketAddr,
    /// The own address that it knows.
    pub from: SocketAddr,
    /// Source and numbers that it knows.
    pub rewrite: Rewrite,
    /// Packets with a lower number in their flow entry are not for it.
    pub since: u32,
}

impl Record for Receiver {
    const FIELDS: usize = 8;

    fn to_fields(&self, fields: &mut [u128]) {
        let Receiver { to, from, rewrite, since } = self;
        (mapped(to.ip()), mapped(from.ip()), to.port(), from.port()).to_fields(&mut fields[..4]);
        (rewrite.ssrc, rewrite.timestamp, rewrite.sequence, *since).to_fields(&mut fields[4..]);
    }

    fn from_fields(fields: &[u128]) -> Option<Self> {
        let (to, from, to_port, from_port): (Ipv6Addr, Ipv6Addr, u16, u16) = Record::from_fields(fields.get(..4)?)?;
        let (ssrc, timestamp, sequence, since) = Record::from_fields(fields.get(4..)?)?;
        let own = |address: Ipv6Addr, port| SocketAddr::new(IpAddr::V6(address).to_canonical(), port);
        let rewrite = Rewrite { ssrc, sequence, timestamp };
        Some(Receiver { to: own(to, to_port), from: own(from, from_port), rewrite, since })
    }
}

/// Who gets a stream's packets over UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leads {
    /// Nobody.
    Nobody,
    /// One receiver, in the kernel.
    Receiver {
        /// The receiver.
        to: SocketAddr,
        /// The own address that it knows.
        from: SocketAddr,
        /// Source and numbers that it knows.
        rewrite: Rewrite,
    },
    /// The members of the track's group, by a worker.
    Group,
}

/// A flow entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Who gets the packets over UDP.
    pub leads: Leads,
    /// They went to the group before: what a worker still has comes first.
    pub again: bool,
    /// The controller gets them, too, and delivers them on connections.
    pub tapped: bool,
    /// The rate of the stream's clock, in hertz; 0 where it is not known.
    pub rate: u32,
    /// The place of what is counted, and the group of the receivers.
    pub track: u32,
    /// Goes on with its packets: how often receivers have begun to be the program's.
    pub generation: u32,
}

impl Record for Flow {
    const FIELDS: usize = 12;

    fn to_fields(&self, fields: &mut [u128]) {
        let nowhere = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0);
        let nobody = (nowhere, nowhere, Rewrite::default());
        let (leads, (to, from, rewrite)) = match self.leads {
            Leads::Nobody => (0u8, nobody),
            Leads::Receiver { to, from, rewrite } => (if self.again { 3 } else { 1 }, (to, from, rewrite)),
            Leads::Group => (2, nobody),
        };
        (mapped(to.ip()), mapped(from.ip()), to.port(), from.port()).to_fields(&mut fields[..4]);
        (rewrite.ssrc, rewrite.timestamp, rewrite.sequence).to_fields(&mut fields[4..7]);
        (leads, self.tapped, self.rate, self.track).to_fields(&mut fields[7..11]);
        fields[11] = self.generation.into();
    }

    fn from_fields(fields: &[u128]) -> Option<Self> {
        // The receiver stands as in a group, and in the last field's place there is what follows.
        let mut one = [0; Receiver::FIELDS];
        one[..7].copy_from_slice(fields.get(..7)?);
        let Receiver { to, from, rewrite, .. } = Record::from_fields(&one)?;
        let (leads, tapped, rate, track): (u8, bool, u32, u32) = Record::from_fields(fields.get(7..11)?)?;
        let generation = u32::try_from(*fields.get(11)?).ok()?;
        let again = leads == 3;
        let leads = match leads {
            0 => Leads::Nobody,
            2 => Leads::Group,
            _ => Leads::Receiver { to, from, rewrite },
        };
        Some(Flow { leads, again, tapped, rate, track, generation })
    }
}

/// What was counted of a stream's packets (`progress_t`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Packets.
    pub packets: u64,
    /// Bytes of RTP packets.
    pub bytes: u64,
    /// Time of the last packet, in nanoseconds of the monotonic clock.
    pub heard: u64,
    /// Which of the last 64 sequence numbers have come; 0: no packet yet.
    pub seen: u64,
    /// The highest sequence number, with how often they began anew in the upper half.
    pub highest: u32,
    /// The timestamp of the packet that had it.
    pub timestamp: u32,
    /// Its source.
    pub ssrc: u32,
    /// Numbers that were left out and have not come late; wraps around.
    pub lost: u32,
    /// Packets with lower numbers than one before.
    pub late: u32,
    /// Packets with the number of one before.
    pub duplicate: u32,
    /// Jumps of numbers, and other sources.
    pub restarts: u32,
    /// Arrival less timestamp of the last packet, in ticks.
    pub transit: u32,
    /// In sixteenths of a tick.
    pub jitter: u32,
    /// When the last packet went to the group, in nanoseconds of the monotonic clock; 0: none yet.
    pub handed: u64,
    /// The same of the last one that is known to have come out.
    pub fanned: u64,
}

impl Record for Progress {
    const FIELDS: usize = 15;

    fn to_fields(&self, fields: &mut [u128]) {
        (self.packets, self.bytes, self.heard, self.seen).to_fields(&mut fields[..4]);
        (self.highest, self.timestamp, self.ssrc, self.lost).to_fields(&mut fields[4..8]);
        (self.late, self.duplicate, self.restarts, self.transit).to_fields(&mut fields[8..12]);
        (self.jitter, self.handed, self.fanned).to_fields(&mut fields[12..]);
    }

    fn from_fields(fields: &[u128]) -> Option<Self> {
        let (packets, bytes, heard, seen) = Record::from_fields(fields.get(..4)?)?;
        let (highest, timestamp, ssrc, lost) = Record::from_fields(fields.get(4..8)?)?;
        let (late, duplicate, restarts, transit) = Record::from_fields(fields.get(8..12)?)?;
        let (jitter, handed, fanned) = Record::from_fields(fields.get(12..)?)?;
        Some(Progress {
            packets,
            bytes,
            heard,
            seen,
            highest,
            timestamp,
            ssrc,
            lost,
            late,
            duplicate,
            restarts,
            transit,
            jitter,
            handed,
            fanned,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round<R: Record + PartialEq + std::fmt::Debug>(own: &R) {
        let mut fields = vec![0; R::FIELDS];
        own.to_fields(&mut fields);
        assert_eq!(R::from_fields(&fields).as_ref(), Some(own));
    }

    #[test]
    fn records_are_what_they_were() {
        let (v4, v6) = ("10.0.0.1:5000".parse().unwrap(), "[2001:db8::1]:6000".parse().unwrap());
        round(&FlowKey { src: v4, dst: v6 });
        let rewrite = Rewrite { ssrc: 1, sequence: 2, timestamp: 3 };
        round(&Receiver { to: v6, from: v4, rewrite, since: 4 });
        let one = Leads::Receiver { to: v6, from: v4, rewrite };
        for (leads, again, tapped) in
            [(Leads::Nobody, false, true), (Leads::Group, false, false), (one, false, true), (one, true, false)]
        {
            round(&Flow { leads, again, tapped, rate: 90000, track: 7, generation: 8 });
        }
        round(&Progress { packets: 1, heard: 2, highest: 3, jitter: 4, handed: 5, fanned: 6, ..Progress::default() });
    }
}
