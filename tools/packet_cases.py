"""Packet cases whose packets scapy has made: what the examples' cases.py share."""


def text(packet):
    data = bytes(packet)
    return f"hex({data.hex(' ')})"


class Case:
    """A case file of `folder`, step by step."""

    def __init__(self, folder, name, description):
        self.path, self.lines = folder / f"{name}.toml", ["# Made by cases.py with scapy.", f'description = "{description}"']

    def add(self, *lines):
        self.lines += lines

    def step(self, note, port, packet, out=None, drops=None):
        """A packet that comes in. `out`: (port, packet), or several of these in a list. `drops`: a reason."""
        self.result(note, f'in = {{ port = "{port}", packet = "{text(packet)}" }}', out, drops)

    def neighbours(self, known):
        """Entries of the table `resolve.neighbours`. `known`: (port, IPv4 or IPv6 address, Ethernet address)."""
        for port, address, mac in known:
            address = address if ":" in address else f"::ffff:{address}"
            key = f'{{ port = "{port}", address = "{address}" }}'
            self.add("", "[[tables.resolve.neighbours]]", f"key = {key}", f'value = "{mac}"')

    def wait(self, note, time):
        self.result(note, f'wait = "{time}"')

    def result(self, note, what, out=None, drops=None):
        self.lines += ["", "[[step]]", f'note = "{note}"', what]
        outs = out if isinstance(out, list) else [out] if out else []
        shown = [f'{{ port = "{port}", packet = "{text(packet)}" }}' for port, packet in outs]
        if len(shown) == 1:
            self.lines.append(f"out = [{shown[0]}]")
        elif shown:
            self.lines += ["out = [", *(f"    {line}," for line in shown), "]"]
        if drops:
            self.lines.append(f"drops = {{ {drops} = 1 }}")

    def write(self, *more):
        self.path.write_text("\n".join([*self.lines, *more]) + "\n")


def broken(packet, layer, **fields):
    """A packet with right checksums and lengths, then other values in the fields of a layer."""
    packet = packet.__class__(bytes(packet))
    for field, value in fields.items():
        setattr(packet[layer], field, value)
    return packet
