//! Examples in documents: Baker code in fences that begin with ```` ```c KIND ````.

/// An example.
pub struct Example {
    /// Line of its fence, counted from 1.
    pub line: usize,
    /// What the fence says behind `c`.
    pub kind: &'static str,
    /// The code.
    pub text: String,
}

/// The examples of a document.
pub fn examples(document: &'static str) -> Vec<Example> {
    let mut found: Vec<Example> = Vec::new();
    // Whether this is within a fence, and that of an example.
    let (mut inside, mut taken) = (false, false);
    for (index, line) in document.lines().enumerate() {
        match line.strip_prefix("```") {
            Some(_) if inside => inside = false,
            Some(language) => {
                inside = true;
                taken = false;
                if let Some(kind) = language.strip_prefix("c ") {
                    taken = true;
                    found.push(Example { line: index + 1, kind, text: String::new() });
                }
            }
            None if inside && taken => found.last_mut().expect("one began").text.extend([line, "\n"]),
            None => {}
        }
    }
    found
}

/// A program with this body of the PPF `work.work`, which holds the packet `ip`.
pub fn body(text: &str) -> String {
    format!(
        "import \"net/ipv4\";
import \"net/tcp\";
import \"net/udp\";
metadata {{ mark : u32; }}
module work {{
    in  ether input;
    out ipv4 output, other;
    channel ipv4 inner;
    struct flow_t {{ hop : u32; packets : u64; }}
    lpm<ipv4_addr_t, u32> fib[1024];
    lpm<ipv4_addr_t, flow_t> routes[1024];
    hash<ipv4_addr_t, flow_t> flows[1024];
    counter hits;
    meter guests;
    ppf start(ether_packet_t *pkt) from input {{
        ipv4_packet_t *ip = packet_decap(pkt);
        channel_put(inner, ip);
    }}
    ppf work(ipv4_packet_t *ip) from inner {{
{text}
    }}
}}
module end {{
    in  ipv4 input;
    out ether output;
    ppf encap(ipv4_packet_t *ip) from input {{
        ether_packet_t *pkt = packet_encap(ip);
        channel_put(output, pkt);
    }}
}}
program {{ rx -> work.input; work.output -> end.input; work.other -> end.input; end.output -> tx; }}
"
    )
}
