/* Fan-out: what it costs to send each packet of a source stream (UDP, 1328 bytes) to 1, 10, 100 and 1000 receivers,
 * each with its own addresses and checksums.
 *
 * One thread on CPU 1 does everything by turns: it sends some packets of the source, which come in at the box's
 * device, and fans them out. Receivers are behind 1, 1, 2 or 16 veth devices, at whose other end a program counts the
 * packets by address and drops them, on the same CPU. So the time that passes is the CPU time of all; what the other
 * CPU is busy with is added. `source` is the source and the box's device alone. Nothing is sent before the packets
 * before have come.
 *
 * usage: bench/experiments/run fanout [xdp|tc|usual|check|burst] [seconds per case] [rounds] [part of a name]
 * (as root)
 *
 * The sinks are programs at the XDP hook (`xdp`; the kernel copies what a socket sends once more, as XDP wants room in
 * front) or at the tc hook (`tc`; a redirected frame becomes an skb first). `usual` is `tc` with links as the kernel
 * sets them up: a link takes super-packets, as a network card that segments does. `check` sends a few packets to ten
 * receivers, of which one is a socket, and fails if it misses some or if one is wrong. `burst` prints what the systems
 * in the kernel lose when 64 packets of the source come in one poll.
 *
 * Prints packets per CPU second (medians of the rounds), ns per packet, and what of 10^6 packets did not arrive. */
#include "fanout.h"
#include <net/if.h>

struct cell {
	double rate[16], lost;
	int rounds;
	double calls;
};

static int sizes[] = {1, 10, 100, 1000};

static void network(bool usual)
{
	run("for n in fan-source fan-box fan-sink; do ip netns del $n 2>/dev/null; ip netns add $n; done");
	run("ip link add s netns fan-source numrxqueues 1 numtxqueues 1 type veth peer name in netns fan-box numrxqueues 1 "
	    "numtxqueues 1 && ip -n fan-source link set s up && ip -n fan-box link set in up address 02:00:00:00:00:01 && "
	    "ip -n fan-box addr add 10.0.0.2/24 dev in && ip -n fan-box link set lo up && "
	    "ip -n fan-box neigh add 10.0.0.1 lladdr 02:00:00:00:00:02 dev in");
	FILE *batch = popen("ip -n fan-box -batch -", "w");
	for (int k = 0; k < DEVICES; k++)
		run("ip link add out%d netns fan-box numrxqueues 1 numtxqueues 1 type veth peer name in%d netns fan-sink "
		    "numrxqueues 1 numtxqueues 1 && ip -n fan-sink link set in%d up",
		    k, k, k);
	for (int k = 0; k < DEVICES; k++) {
		fprintf(batch, "link set out%d up address 02:00:00:02:%02x:01\naddr add 10.1.%d.1/24 dev out%d\n", k, k, k, k);
		for (int h = 0; h < EACH; h++)
			fprintf(batch, "neigh add 10.1.%d.%d lladdr 02:00:00:01:%02x:%02x dev out%d\n", k, h + 2, k, h + 2, k);
	}
	if (pclose(batch))
		fail("ip -batch");
	if (!usual)
		run("for k in $(seq 0 %d); do ip netns exec fan-box ethtool -K out$k tso off gso on tx-udp-segmentation off && "
		    "ip netns exec fan-sink ethtool -K in$k gro on; done >/dev/null 2>&1",
		    DEVICES - 1);
}

/* The devices' numbers within the box's namespace. */
static void number_devices(struct setup *s)
{
	enter("fan-box");
	s->in = if_nametoindex("in");
	for (int k = 0; k < DEVICES; k++) {
		char name[16];
		snprintf(name, sizeof name, "out%d", k);
		s->out[k] = if_nametoindex(name);
	}
}

static void sinks(struct setup *s, bool xdp)
{
	int program = xdp ? load(&s->object, "xdp_sink", BPF_PROG_TYPE_XDP, BPF_XDP, 0)
			  : load(&s->object, "tc_sink", BPF_PROG_TYPE_SCHED_CLS, ATTACH_TCX_INGRESS, 0);
	enter("fan-sink");
	for (int k = 0; k < DEVICES; k++) {
		char name[16];
		snprintf(name, sizeof name, "in%d", k);
		attach(program, if_nametoindex(name), xdp ? BPF_XDP : ATTACH_TCX_INGRESS, xdp ? DRIVER_MODE : 0);
	}
}

/* Whether one receiver, which is a socket, gets all packets whole. */
static bool check(struct setup *s, const struct system *system)
{
	pid_t child = need(fork());
	if (!child) {
		pin(1);
		make_receivers(s, 10);
		make_source(s);
		open_first_receiver();
		enter("fan-box");
		system->start(s);
		for (int i = 0; i < 20; i++)
			step(s, system);
		int due = system->fans ? 20 * (system->batch ? system->batch : s->batch) : 0, got = got_by_first_receiver();
		printf("%-30s %d of %d\n", system->name, got, due);
		fflush(stdout);
		_exit(got != due);
	}
	int status;
	waitpid(child, &status, 0);
	return status == 0;
}

/* Prints what a system loses of bursts. */
static void lose(struct setup *s, const struct system *system, int receivers)
{
	pid_t child = need(fork());
	if (!child) {
		pin(1);
		make_receivers(s, receivers);
		make_source(s);
		enter("fan-box");
		system->start(s);
		run("ethtool -K in gro on"); /* for reception by polls without an XDP program */
		uint64_t before = s->counts[COUNTS], sent = (uint64_t)send_bursts(s) * receivers;
		usleep(100000);
		printf("%-20s %4d receivers, %2d per device: %.1f %% lost\n", system->name, receivers, s->each,
		       100 - (s->counts[COUNTS] - before) * 100.0 / sent);
		fflush(stdout);
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

/* One measurement, in a process of its own; writes rate, loss and calls to `out`. */
static void measure(struct setup *s, const struct system *system, int receivers, double seconds, int out)
{
	pin(1);
	make_receivers(s, receivers);
	make_source(s);
	enter("fan-box");
	system->start(s);
	for (int i = 0; i < 20; i++)
		step(s, system);
	s->sent = s->lost = s->calls = 0;
	uint64_t before[COUNTS + 2];
	memcpy(before, (void *)s->counts, sizeof before);
	double other = busy(0);
	uint64_t began = now(), end = began + seconds * 1e9;
	while (now() < end)
		step(s, system);
	double time = (now() - began) / 1e9 + busy(0) - other;
	uint64_t arrived = s->counts[COUNTS] - before[COUNTS], least = ~0ULL, most = 0;
	for (int i = 0; i < receivers && system->fans; i++) {
		int at = ntohl(s->receivers[i].address) & (COUNTS - 1);
		uint64_t got = s->counts[at] - before[at];
		least = got < least ? got : least;
		most = got > most ? got : most;
	}
	if (s->counts[COUNTS + 1] != before[COUNTS + 1])
		fprintf(stderr, "%s: unexpected packets\n", system->name);
	if (system->fans && most - least > s->lost + 64)
		fprintf(stderr, "%s, %d: receivers got %lu to %lu\n", system->name, receivers, least, most);
	double result[3] = {arrived / time, s->sent > arrived ? (s->sent - arrived) * 1e6 / s->sent : 0,
			    (double)s->calls / (s->sent ? s->sent : 1)};
	need(write(out, result, sizeof result));
	_exit(0);
}

int main(int argc, char **argv)
{
	const char *kind = argc > 1 ? argv[1] : "xdp", *only = argc > 4 ? argv[4] : NULL;
	double seconds = argc > 2 ? atof(argv[2]) : 0.5;
	int rounds = argc > 3 ? atoi(argv[3]) : 3, here = need(open("/proc/self/ns/net", O_RDONLY));
	struct rlimit memory = {RLIM_INFINITY, RLIM_INFINITY};
	setrlimit(RLIMIT_MEMLOCK, &memory);
	static struct cell cells[32][4];
	static struct setup setup;
	setup.usual = !strcmp(kind, "usual");
	network(setup.usual);
	open_object(&setup.object, PROGRAMS, NULL, 0);
	setup.counts = map_memory(map_fd(&setup.object, "counts"), sizeof(uint64_t) * (COUNTS + 2));
	number_devices(&setup);
	bool right = true;
	if (!strcmp(kind, "check")) {
		run("ip -n fan-sink link set in0 address 02:00:00:01:00:02 && ip -n fan-sink addr add 10.1.0.2/24 dev in0");
		for (int i = 0; systems[i].name; i++)
			right &= check(&setup, &systems[i]);
		rounds = 0;
	} else {
		sinks(&setup, strcmp(kind, "tc") && !setup.usual);
		for (int i = 0; systems[i].name && !strcmp(kind, "burst"); i++)
			for (int size = 0; size < 4 && systems[i].fans && !systems[i].fan_out; size++)
				lose(&setup, &systems[i], sizes[size]);
		rounds = strcmp(kind, "burst") ? rounds : 0;
		printf("sinks: %s, %d rounds of %.1f s; packets per CPU second (ns, most lost of 10^6, calls per packet)\n", kind,
		       rounds, seconds);
	}
	for (int round = 0; round < rounds; round++)
		for (int size = 0; size < 4; size++)
			for (int i = 0; systems[i].name; i++) {
				int ends[2];
				double result[3];
				if (only && !strstr(systems[i].name, only))
					continue;
				need(pipe(ends));
				pid_t child = need(fork());
				if (!child)
					measure(&setup, &systems[i], sizes[size], seconds, ends[1]);
				close(ends[1]);
				struct cell *c = &cells[i][size];
				if (read(ends[0], result, sizeof result) == sizeof result) {
					c->rate[c->rounds++] = result[0];
					c->lost = result[1] > c->lost ? result[1] : c->lost;
					c->calls = result[2];
				}
				close(ends[0]);
				waitpid(child, NULL, 0);
			}
	for (int i = 0; systems[i].name; i++) {
		if (!cells[i][3].rounds && !cells[i][0].rounds)
			continue;
		printf("| %-32s |", systems[i].name);
		for (int size = 0; size < 4; size++) {
			struct cell *c = &cells[i][size];
			double rate = c->rounds ? median(c->rate, c->rounds) : 0;
			printf(" %8.0f (%5.0f, %4.0f, %.3f) |", rate, rate ? 1e9 / rate : 0, c->lost, c->calls);
		}
		printf("\n");
	}
	need(setns(here, 0));
	run("for n in fan-source fan-box fan-sink; do ip netns del $n; done");
	return !right;
}
