//! Protocols and metadata.

use crate::support::refused;

fn protocol(lines: &str) -> String {
    format!("protocol p {{\n{lines}\n}}\n")
}

#[test]
fn protocols() {
    refused(&[
        ("protocol-field-twice", &["duplicate-field"], protocol("    a : 16;\n    a : 16;\n    demux { 2 };")),
        ("protocol-field-type", &["bad-field-type"], protocol("    a : i16;\n    demux { 2 };")),
        ("protocol-field-too-wide", &["size-out-of-range"], protocol("    a : 256;\n    b : 8;\n    demux { 33 };")),
        (
            "protocol-field-named-metadata",
            &["reserved-name"],
            protocol("    metadata : 16;\n    b : 16;\n    demux { 4 };"),
        ),
        (
            "protocol-default-too-large",
            &["constant-out-of-range"],
            protocol("    a : 4 = 16;\n    b : 4;\n    demux { 1 };"),
        ),
        ("partial-byte", &["partial-byte"], protocol("    a : 4;\n    b : 9;\n    demux { 2 };")),
        ("empty-protocol", &["empty-protocol"], protocol("    demux { 2 };")),
        (
            "header-too-long",
            &["header-too-long"],
            protocol(&(0..40).map(|i| format!("    f{i} : 128;\n")).collect::<String>())
                .replace("}", "    demux { 512 };\n}"),
        ),
        ("missing-demux", &["missing-demux"], protocol("    a : 16;")),
        (
            "duplicate-length",
            &["duplicate-length"],
            protocol("    a : 16;\n    length { a };\n    length { a + 2 };\n    demux { 2 };"),
        ),
        (
            "length-twice-counted",
            &["duplicate-length"],
            protocol("    a : 16 counts { payload };\n    b : 16 counts { header, payload };\n    demux { 4 };"),
        ),
        (
            "length-counted-and-said",
            &["duplicate-length"],
            protocol("    a : 16 counts { payload };\n    length { a + 2 };\n    demux { 2 };"),
        ),
        ("bad-counts", &["bad-counts"], protocol("    a : 16 counts { pseudo, payload };\n    demux { 2 };")),
        ("counts-no-payload", &["bad-counts"], protocol("    a : 16 counts { header };\n    demux { 2 };")),
        ("counts-too-wide", &["bad-counts"], protocol("    a : 64 counts { header, payload };\n    demux { 8 };")),
        ("bad-length", &["bad-length"], protocol("    a : 16;\n    length { (u32) now_ns() };\n    demux { 2 };")),
        (
            "length-by-a-checksum",
            &["bad-length"],
            protocol("    a : 16 covers { header, payload };\n    length { a };\n    demux { 2 };"),
        ),
        ("demux-by-a-checksum", &["bad-demux"], protocol("    a : 16 covers { header };\n    demux { a + 2 };")),
        ("duplicate-demux", &["duplicate-demux"], protocol("    a : 16;\n    demux { 2 };\n    demux { 4 };")),
        ("bad-demux", &["bad-demux"], protocol("    a : 16;\n    b : 16;\n    demux { 2 };")),
        ("demux-too-long", &["bad-demux"], protocol("    a : 16;\n    demux { 513 };")),
        (
            "demux-of-a-function",
            &["bad-demux"],
            format!("u32 four(u32 x) {{\n    return x * 4;\n}}\n\n{}", protocol("    a : 16;\n    demux { four(a) };")),
        ),
        ("demux-of-unknown-field", &["unknown-name"], protocol("    len : 16;\n    demux { lenn };")),
        ("demux-too-wide", &["narrowing"], protocol("    a : 64;\n    demux { a };")),
        ("bad-covers", &["bad-covers"], protocol("    a : 16 covers { trailer };\n    demux { 2 };")),
        ("covers-no-header", &["bad-covers"], protocol("    a : 16 covers { payload };\n    demux { 2 };")),
        ("covers-no-payload", &["bad-covers"], protocol("    a : 16 covers { pseudo, header };\n    demux { 2 };")),
        (
            "pseudo-of-unknown-field",
            &["unknown-field"],
            protocol("    from : 16;\n    pseudo { form };\n    demux { 2 };"),
        ),
        (
            "bad-checksum",
            &["bad-checksum"],
            protocol("    a : 8;\n    sum : 16 covers { header };\n    b : 8;\n    demux { 4 };"),
        ),
        (
            "duplicate-checksum",
            &["duplicate-checksum"],
            protocol("    a : 16 covers { header };\n    b : 16 covers { header };\n    demux { 4 };"),
        ),
        ("metadata-twice", &["duplicate-field"], "metadata { mark : u8; }\nmetadata { mark : u16; }\n".into()),
        ("metadata-named-rx", &["reserved-name"], "metadata { rx : u8; }\n".into()),
        ("metadata-signed", &["bad-field-type"], "metadata { delta : i32; }\n".into()),
        ("metadata-of-a-struct", &["bad-field-type"], "struct s { a : u8; }\nmetadata { hop : s; }\n".into()),
    ]);
}
