/* Whether the program of a devmap entry runs for the packets of that entry alone. Linux keeps one bulk queue for each
 * device and CPU, with one program.
 *
 * A source sends groups of packets to ports 1000 and 2000 by turns, many in a poll. In the box, port 1000 goes out by
 * BPF_F_BROADCAST and a devmap entry whose program writes a mark; port 2000 goes out at the same device: by an entry
 * without a program, by an entry with a program that writes another mark, by bpf_redirect, or, to compare, at a device
 * of its own. At last both go out by entries with one program, which writes the mark where metadata tells it to, and
 * port 1000 to a second device, too. The sink counts the marks by port.
 *
 * usage: bench/experiments/run devmap-egress                                                      (as root)
 *
 * Prints for each way how many packets of each port have come with no mark, the mark, the other mark; right would be:
 * port 1000 all with the mark, port 2000 all without, or with the other one where its entry has a program. */
#include "../common/load.h"
#include "../common/packet.h"
#include <arpa/inet.h>
#include <net/if.h>

enum way { NO_PROGRAM, OTHER_PROGRAM, REDIRECT, OTHER_DEVICE, TOLD };
static const char *names[] = {"entry without program", "entry with another program", "bpf_redirect", "another device",
			      "same program, metadata"};

static void measure(volatile uint64_t *counts, struct object *o, enum way way, int group, int first)
{
	enter("eg-box");
	uint32_t in = if_nametoindex("in"), out = if_nametoindex("out"), other = if_nametoindex("other");
	int mark = load(o, "mark", BPF_PROG_TYPE_XDP, BPF_XDP_DEVMAP, 0);
	int mark_other = load(o, "mark_other", BPF_PROG_TYPE_XDP, BPF_XDP_DEVMAP, 0);
	int told = load(o, "mark_if_told", BPF_PROG_TYPE_XDP, BPF_XDP_DEVMAP, 0);
	uint32_t zero = 0, one = 1;
	struct device_entry with = {out, mark};
	struct device_entry without = {way == OTHER_DEVICE ? other : out, way == OTHER_PROGRAM ? mark_other : 0};
	if (way == TOLD) {
		struct device_entry second = {other, told};
		with.program = without.program = told;
		set(map_fd(o, "ways"), &one, &second);
	}
	set(map_fd(o, "ways"), &zero, &with);
	set(map_fd(o, "others"), &zero, &without);
	set_word(map_fd(o, "settings"), 1, group);
	set_word(map_fd(o, "settings"), 2, first);
	set_word(map_fd(o, "settings"), 3, way == REDIRECT ? out : way == TOLD ? 0x70d : 0);
	attach(load(o, "box", BPF_PROG_TYPE_XDP, BPF_XDP, 0), in, BPF_XDP, DRIVER_MODE);
	enter("eg-source");
	set_word(map_fd(o, "settings"), 0, if_nametoindex("s"));
	for (int i = 0; i < 16; i++)
		counts[i] = 0;
	struct headers packet[4] = {{.type = htons(0x0800), .version = 0x45}};
	/* A device to run at, in this namespace. */
	struct xdp_md context = {.data_end = sizeof packet, .ingress_ifindex = if_nametoindex("s")};
	int source = load(o, "source", BPF_PROG_TYPE_XDP, BPF_XDP, 0);
	union bpf_attr attr = {.test = {.prog_fd = source, .data_in = (uintptr_t)packet, .data_size_in = sizeof packet,
					.ctx_in = (uintptr_t)&context, .ctx_size_in = sizeof context,
					.repeat = 1 << 16, .flags = BPF_F_TEST_XDP_LIVE_FRAMES, .batch_size = 64}};
	if (bpf(BPF_PROG_TEST_RUN, &attr))
		fail("test run");
	usleep(50000);
	printf("| %-26s | %2d | %s |", names[way], group, first ? "1000" : "2000");
	for (int port = 0; port < 2; port++)
		printf(" %6lu %6lu %6lu |", counts[1 + 4 * port], counts[2 + 4 * port], counts[3 + 4 * port]);
	printf("\n");
	fflush(stdout);
}

int main(void)
{
	int here = need(open("/proc/self/ns/net", O_RDONLY));
	run("for n in eg-source eg-box eg-sink; do ip netns del $n 2>/dev/null; ip netns add $n; done; "
	    "ip link add s netns eg-source type veth peer name in netns eg-box && "
	    "ip link add out netns eg-box type veth peer name i netns eg-sink && "
	    "ip link add other netns eg-box type veth peer name j netns eg-sink && "
	    "for at in eg-source:s eg-box:in eg-box:out eg-box:other eg-sink:i eg-sink:j; do "
	    "ip -n ${at%%:*} link set ${at#*:} up; done");
	pin(1);
	struct object o;
	open_object(&o, PROGRAMS, NULL, 0);
	volatile uint64_t *counts = map_memory(map_fd(&o, "counts"), 4096);
	enter("eg-sink");
	int sink = load(&o, "sink", BPF_PROG_TYPE_XDP, BPF_XDP, 0);
	attach(sink, if_nametoindex("i"), BPF_XDP, DRIVER_MODE);
	attach(sink, if_nametoindex("j"), BPF_XDP, DRIVER_MODE);
	printf("port 1000 broadcast by an entry with program; no mark, mark, other mark\n");
	printf("| port 2000 by | group | first of a poll | port 1000 | port 2000 |\n");
	fflush(stdout);
	for (int way = NO_PROGRAM; way <= TOLD; way++)
		for (int group = 1; group <= 16; group *= 16)
			for (int first = 0; first < 2; first++) {
				pid_t child = need(fork());
				if (!child) {
					measure(counts, &o, way, group, first);
					_exit(0);
				}
				waitpid(child, NULL, 0);
			}
	need(setns(here, 0));
	run("for n in eg-source eg-box eg-sink; do ip netns del $n; done");
}
