//! Seeds, made of the repository's own files.

use std::fs;
use std::path::{Path, PathBuf};

use control::applications::Applications;
use control::cases;

use crate::targets::{packet, splicer, switch};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// All files with an ending below some folders, by name.
fn files(folders: &[&str], ending: &str) -> Vec<PathBuf> {
    let mut open: Vec<PathBuf> = folders.iter().map(|folder| Path::new(ROOT).join(folder)).collect();
    let mut found = Vec::new();
    while let Some(folder) = open.pop() {
        let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for entry in entries {
            let path = entry.unwrap_or_else(|error| panic!("{}: {error}", folder.display())).path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|known| known == ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn read(path: PathBuf) -> Vec<u8> {
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Baker programs, and those of the language's documentation.
pub fn programs() -> Vec<Vec<u8>> {
    let documentation = String::from_utf8_lossy(&read(Path::new(ROOT).join("docs/language.md"))).into_owned();
    let examples = documentation.split("```c").skip(1).filter_map(|rest| rest.split_once('\n')?.1.split("```").next());
    let examples = examples.map(|text| text.as_bytes().to_vec());
    files(&["lib", "apps", "examples"], "baker").into_iter().map(read).chain(examples).collect()
}

/// Configurations of the L3 switch.
pub fn configurations() -> Vec<Vec<u8>> {
    let own = [
        "[frames]\ncount = 4096\nsize = 4096\n[workers]\ncount = 2\nmode = \"busy\"\ncpus = [0, 1]\n",
        "[control]\ninstance = \"edge\"\nsocket = \"/run/e.sock\"\ngroup = \"netops\"\n",
        "[ports.p1]\nnumber = 1\ndevice = \"pcap:a.pcap,b.pcap\"\nhost = \"p2\"\n[ports.p2]\nnumber = 2\ndevice = \"mem\"\n",
        "[[tables.l2_bridge.stations]]\nkey = { domain = 2, mac = \"02:00:00:00:00:13\" }\nvalue = { port = 3, heard = 0 }\n",
    ];
    files(&["apps"], "toml").into_iter().map(read).chain(own.map(|text| text.as_bytes().to_vec())).collect()
}

/// Files of labs: the examples, and that of the documentation.
pub fn labs() -> Vec<Vec<u8>> {
    let documentation = String::from_utf8_lossy(&read(Path::new(ROOT).join("docs/operations.md"))).into_owned();
    let blocks = documentation.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let documented: Vec<_> =
        blocks.filter(|block| block.contains("[[links]]")).map(|text| text.as_bytes().to_vec()).collect();
    assert!(!documented.is_empty(), "docs/operations.md shows a lab");
    let own = [
        "[hosts.a]\n[hosts.b]\n[[links]]\nends = [\"a:eth0\", \"b:eth0\"]\n",
        "[hosts.a]\ndevices.x = { addresses = [\"fd00::1/64\"] }\n[hosts.b]\n[[links]]\nends = [\"b:y\", \"a:x\"]\nloss = \"1 %\"\n",
        "hosts = { a = {} }\nlinks = [{ ends = [\"a:p\", \"a:q\"], forward = { delay = \"1 s\", reorder = 1 } }]\n",
    ];
    let examples = files(&["examples"], "toml").into_iter().map(read);
    let examples = examples.filter(|text| String::from_utf8_lossy(text).contains("[[links]]"));
    examples.chain(documented).chain(own.map(|text| text.as_bytes().to_vec())).collect()
}

/// Sequences of packets: those of the L3 switch's cases.
pub fn packets() -> Vec<Vec<u8>> {
    let program = switch::program();
    let cases = files(&["apps/l3switch/cases"], "toml").into_iter().map(|path| {
        let case = cases::load(&path, program, Applications::NONE).unwrap_or_else(|error| panic!("{error}"));
        let received = case.steps.iter().filter_map(|step| match &step.enters {
            cases::Enters::Received { port, packet } => Some((*port, &packet[..])),
            _ => None,
        });
        packet::encode(received)
    });
    cases.collect()
}

/// Requests to the control socket, a line each.
pub fn requests() -> Vec<Vec<u8>> {
    [
        r#"{"request": "status"}"#,
        r#"{"request": "counters"}"#,
        r#"{"request": "tables"}"#,
        r#"{"request": "table_get", "table": "l3_forward.fib", "key": "10.0.1.0/24"}"#,
        r#"{"request": "table_set", "table": "l3_forward.fib", "key": "10.0.3.0/24", "value": 2}"#,
        r#"{"request": "table_set", "table": "l2_bridge.stations", "key": {"domain": 1, "mac": "02:00:00:00:00:99"}, "value": {"port": "p1", "heard": 0}}"#,
        r#"{"request": "table_set", "table": "l3_forward.next_hops", "key": 7, "value": {"domain": 1, "gateway": "10.0.1.9", "src": "02:00:00:00:01:01"}}"#,
        r#"{"request": "table_load", "table": "l3_forward.fib", "entries": [{"key": "10.0.3.0/24", "value": 2}, {"key": "10.0.4.0/24", "value": 3}]}"#,
        r#"{"request": "table_load", "table": "l3_forward.next_hops", "entries": []}"#,
        r#"{"request": "table_del", "table": "l3_forward.fib", "key": "10.0.3.0/24"}"#,
        r#"{"request": "table_dump", "table": "l3_forward.neighbours"}"#,
        r#"{"request": "table_find", "table": "l3_forward.fib", "search": "10", "after": "10.0.1.0/24", "limit": 2}"#,
        r#"{"request": "graph"}"#,
        "{\"request\": \"status\"}\n\n{\"request\": \"ports\"}\n[]\nnull\n\"\\ud800\"",
    ]
    .map(|line| format!("{line}\n").into_bytes())
    .to_vec()
}

/// Packets as text: those of the L3 switch's cases, and the notation's other forms.
pub fn packet_texts() -> Vec<Vec<u8>> {
    let own = [
        "hex(00 01 02)/zero(4)/text(\"a\\n\\x00b\")/pad(60)",
        "ether(dst=ff:ff:ff:ff:ff:ff, src=02:00:00:00:00:11, type=0x0806)/arp(operation=1, sender_ip=10.0.1.11)",
        "ether()/ipv4(total_length=28, ttl=64)+hex(94 04 00 00)/hex(00)",
    ];
    let mut texts = own.map(|text| text.as_bytes().to_vec()).to_vec();
    for path in files(&["apps/l3switch/cases"], "toml") {
        let text = String::from_utf8_lossy(&read(path)).into_owned();
        // Strings that look like packets: with a layer and its bracket.
        texts.extend(text.split('"').filter(|part| part.contains('(')).map(|part| part.as_bytes().to_vec()));
    }
    texts.sort();
    texts.dedup();
    texts
}

/// HTTP heads, good and bad.
pub fn heads() -> Vec<Vec<u8>> {
    [
        "GET /images/a.png?x=1 HTTP/1.1\r\nHost: www.example:8080\r\nAccept: */*\r\n\r\nGET / HTTP/1.1\r\n",
        "POST / HTTP/1.1\r\nHost: [2001:db8::1]:80\r\nContent-Length: 12\r\nConnection: close\r\n\r\nhello",
        "PUT http://a.example/x HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: a\r\nAuthorization: Negotiate YII=\r\n\r\n",
        "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
        "\r\nGET / HTTP/1.1\r\nHost: user@a/b\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nServer: x\r\n\r\nhello",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm=\"x\", NTLM\r\nTransfer-Encoding: chunked\r\n\r\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

/// Requests of HTTP clients for streams.
pub fn http() -> Vec<Vec<u8>> {
    [
        "GET /rtp/239.1.2.3:5004?r2h-token=x HTTP/1.1\r\nHost: h:80\r\nUser-Agent: VLC\r\nCookie: a=b\r\n\r\nrest",
        "GET /udp/[2001:db8::1]@[ff15::5]:5008 HTTP/1.1\r\nHost: h\r\nAccept: image/jpeg\r\n\r\n",
        "\r\nHEAD http://h/%70laylist.m3u HTTP/1.1\r\nHost: h\r\nAuthorization: Basic YTpi\r\n\r\n",
        "GET /rtsp/10.0.2.11:8554/a?b=c HTTP/1.0\r\n\r\n",
        "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc",
        "HTTP/1.0 200 OK\r\nConnection: close, X\r\nX: y\r\nContent-Length: 3\r\n\r\nabcd",
        "HTTP/1.1 100 Go\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        "HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\nabc",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}

/// Connections of RTSP.
pub fn rtsp() -> Vec<Vec<u8>> {
    [
        "OPTIONS rtsp://h:554/a RTSP/1.0\r\nCSeq: 1\r\nRequire: x\r\n\r\n$\0\0\u{3}abcPLAY * RTSP/1.0\r\nCSeq: 2\r\n\r\n",
        "SETUP rtsp://h/a/trackID=0 RTSP/1.0\r\nCSeq: 3\r\nTransport: RTP/AVP;unicast;client_port=5000-5001;mode=\"PLAY\"\r\n\r\n",
        "PLAY rtsp://h/a?token=x RTSP/1.0\r\nAuthorization: Digest username=\"u\", realm=\"r\", nonce=\"n\", uri=\"/a\", response=\"0f\"\r\n\r\n",
        "RTSP/1.0 200 OK\r\nCSeq: 4\r\nSession: 17;timeout=60\r\nRTP-Info: url=rtsp://h/a/trackID=0;seq=7;rtptime=9\r\n\r\n",
        "RTSP/1.0 200\nContent-Base: rtsp://h/a/\nContent-Length: 54\n\nv=0\r\no=- 1 1 IN IP4 10.0.0.1\r\nm=video 0 RTP/AVP 96\r\n",
        "v=0\r\no=- 1 1 IN IP4 10.0.0.1\r\ns=x\r\nt=0 0\r\na=range:npt=0-5\r\nm=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=control:x\r\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

/// Datagrams of RTCP and RTP.
pub fn reports() -> Vec<Vec<u8>> {
    let sender = wire::rtcp::SenderReport { ssrc: 1, ntp: 2, rtp: 3, packets: 4, octets: 5 };
    let report = wire::rtcp::Report {
        ssrc: 1,
        fraction_lost: 2,
        lost: -3,
        highest: 4,
        jitter: 5,
        last_sender_report: 6,
        delay: 7,
    };
    vec![
        sender.to_bytes("a@b", true),
        wire::rtcp::receiver_report(9, "c", Some(&report)),
        wire::rtcp::bye(9, "d", "gone"),
        vec![0x80, 33, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 4, 5],
        // Pictures: several units of H.264 in one packet, and a packet of a transport stream with a picture.
        vec![0x90, 96, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0x78, 0, 2, 0x67, 0x42, 0, 2, 0x65, 0x88],
        [&[0x80, 33, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0x47, 0x41, 0, 0x30, 1, 0x40, 0, 0, 1, 0xe0][..], &[0; 178]]
            .concat(),
    ]
}

/// Bodies, with framing and sizes of pieces in front.
pub fn bodies() -> Vec<Vec<u8>> {
    [
        &b"\x02\x01\x02\x03\x045\r\nhello\r\nA;x=\"y\" \r\n0123456789\r\n0\r\nTrailer: x\r\n\r\nGET"[..],
        b"\x03\x00\x1f\x07\x0300\r\n\r\n",
        b"\x02\x00\x00\x00\x0010 \t ;\r\n0123456789abcdef\r\n000\r\n\r\n",
        b"\x00\x00\x08\x01\x02\x03\x04hello, all of you",
        b"\x01\x04\x03\x02\x01until the end",
    ]
    .map(<[u8]>::to_vec)
    .to_vec()
}

/// Packets of the splicer's cases that are wanted, in and out.
fn splicer_packets(wanted: impl Fn(&[u8]) -> bool) -> Vec<Vec<u8>> {
    let program = splicer::program();
    let mut found = Vec::new();
    for path in files(&["apps/splice/cases"], "toml") {
        let case = cases::load(&path, program, splicer::APPLICATIONS).unwrap_or_else(|error| panic!("{error}"));
        for step in case.steps {
            let entering = match step.enters {
                cases::Enters::Received { packet, .. } => Some(packet),
                _ => None,
            };
            found.extend(entering.into_iter().chain(step.outputs.into_iter().map(|leaving| leaving.packet)));
        }
    }
    found.retain(|packet| packet.len() > 34 && wanted(packet));
    found.sort();
    found.dedup();
    found
}

/// Which protocol a frame carries behind its IP header; none where it is no IP.
fn protocol(frame: &[u8]) -> Option<u8> {
    match frame.get(12..14)? {
        [8, 0] => frame.get(23).copied(),
        [0x86, 0xdd] => frame.get(20).copied(),
        _ => None,
    }
}

/// With a byte in front that has a target set the checksum.
fn with_first(packets: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    packets.into_iter().map(|packet| [&[0][..], &packet].concat()).collect()
}

/// Frames with TCP segments.
pub fn segments() -> Vec<Vec<u8>> {
    with_first(splicer_packets(|packet| protocol(packet) == Some(6)))
}

/// Frames with ICMP errors, and other ICMP.
pub fn icmp_errors() -> Vec<Vec<u8>> {
    with_first(splicer_packets(|packet| [Some(1), Some(58)].contains(&protocol(packet))))
}

/// Frames with ARP and neighbour discovery.
pub fn answers() -> Vec<Vec<u8>> {
    let advertised = |packet: &[u8]| protocol(packet) == Some(58) && [135, 136].contains(packet.get(54).unwrap_or(&0));
    with_first(splicer_packets(|packet| packet[12..14] == [8, 6] || advertised(packet)))
}

/// Sequences of fragments.
pub fn fragments() -> Vec<Vec<u8>> {
    let is_part = |packet: &[u8]| match packet[12..14] {
        [8, 0] => packet[20] & 0x3f != 0 || packet[21] != 0,
        _ => protocol(packet) == Some(44),
    };
    let framed = |packet: &Vec<u8>| {
        let length = (packet.len() as u16).to_be_bytes();
        [&[1, 0][..], &length, packet].concat()
    };
    let parts: Vec<Vec<u8>> = splicer_packets(is_part).iter().map(framed).collect();
    // A datagram of each version that is whole in the end, and all of them in a row.
    let v4 = |directory: u16, bytes: &[u8]| {
        let mut packet = vec![2, 0, 0, 0, 1, 0xfe, 2, 0, 0, 0, 1, 0x11, 8, 0, 0x45, 0];
        packet.extend((20 + bytes.len() as u16).to_be_bytes());
        packet.extend([0, 9]);
        packet.extend(directory.to_be_bytes());
        packet.extend([64, 6, 0, 0, 10, 0, 1, 11, 10, 0, 1, 80]);
        packet.extend(bytes);
        framed(&packet)
    };
    let v6 = |directory: u16, bytes: &[u8]| {
        let mut packet = vec![2, 0, 0, 0, 1, 0xfe, 2, 0, 0, 0, 1, 0x11, 0x86, 0xdd, 0x60, 0, 0, 0];
        packet.extend((8 + bytes.len() as u16).to_be_bytes());
        packet.extend([44, 64]);
        packet.extend([[0xfd; 16], [0xfe; 16]].concat());
        packet.extend([6, 0]);
        packet.extend(directory.to_be_bytes());
        packet.extend([0, 0, 0, 9]);
        packet.extend(bytes);
        framed(&packet)
    };
    let four = [v4(0x2000, &[1; 24]), v4(0x2003, &[2; 8]), v4(4, &[3; 5])].concat();
    let six = [v6(32, &[3; 5]), v6(1, &[1; 24]), v6(25, &[2; 8])].concat();
    let all = parts.concat();
    parts.into_iter().chain([four, six, all]).collect()
}

/// Steps of a stream's reassembly.
pub fn streams() -> Vec<Vec<u8>> {
    let insert = |at: u16, bytes: &[u8]| [&[3][..], &(200 + at).to_be_bytes(), &[bytes.len() as u8], bytes].concat();
    let start = vec![0xff, 0xff, 0xff, 0xf0];
    vec![
        [start.clone(), insert(0, b"hello, "), insert(7, b"world"), vec![0, 5], vec![1, 3]].concat(),
        [start.clone(), insert(7, b"world"), insert(3, b"lo, wo"), insert(0, b"hello"), vec![0, 12]].concat(),
        [start.clone(), (0..20).flat_map(|at| insert(5 * at + 1, b"xyz")).collect(), insert(0, &[b'0'; 100])].concat(),
        [start.clone(), insert(30, b"behind"), vec![2, 0, 30], vec![0x83, 0, 206, 0], vec![1, 6]].concat(),
        [start, insert(0, &[7; 255]), insert(240, &[8; 40]), vec![1, 255], insert(0, &[9; 200])].concat(),
    ]
}

/// What becomes of clients and servers of the splicer.
pub fn conversations() -> Vec<Vec<u8>> {
    let say = |who: u8, kind: u8, text: &str| [&[who, kind, 0, 0, text.len() as u8], text.as_bytes()].concat();
    let get = say(0, 2, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let image = say(0x10, 2, "GET /images/a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let post = say(0, 2, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n\r\n");
    let answer = say(6, 2, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
    let (connect, wait, late, again) = (vec![11], vec![10, 3], vec![10, 255], vec![15]);
    let with = |steps: &[&Vec<u8>]| steps.iter().flat_map(|step| step.to_vec()).collect();
    vec![
        with(&[&get, &connect, &answer, &get, &answer, &say(0, 3, "")]),
        with(&[&image, &connect, &answer, &late, &get]),
        with(&[&post, &connect, &answer, &post, &answer, &again, &get]),
        with(&[&say(0, 2, "\r\nGET / HT"), &say(0, 2, "TP/1.1\r\nHost: a/b\r\n\r\n"), &wait, &say(0, 4, "")]),
        with(&[&get, &connect, &say(6, 4, ""), &connect, &answer, &vec![0x3e], &vec![0x4e]]),
        with(&[&get, &get, &image, &say(0x20, 2, "x"), &say(0x30, 2, "GET / HTTP/1.1\r\n"), &late, &late]),
    ]
}
