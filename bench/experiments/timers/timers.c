/* Timers of a worker: how late a timer of 1 ms is handled by a worker that forwards packets of 1370 bytes from one veth
 * device to another, by AF_XDP or by packet sockets (recvmmsg, sendmmsg), when nothing comes and when more comes than
 * it can forward.
 *
 * CPU 0: a source that never stops (the kernel's test run). CPU 1: the worker, which takes at most 64 packets (or as
 * named) at a time and looks at the clock after each of these batches. It waits
 *   spin      never;
 *   ppoll     in ppoll(2) until the timer is due, before each batch;
 *   slack     the same, with a timer slack of 1 ns (50 us is usual);
 *   adaptive  in ppoll(2) with that slack, but only when the last batch was empty;
 *   timerfd   in epoll_wait(2) for packets or a timerfd;
 *   thread    as adaptive, and the timer is a thread's in clock_nanosleep(2) on the same CPU;
 *   fifo      the same, the thread with SCHED_FIFO.
 * `contended`: a process that never sleeps is on CPU 1 as well.
 *
 * usage: bench/experiments/run timers [seconds per case] [rounds]                                  (as root)
 *
 * Prints microseconds of lateness, p50, p99 and greatest, of all rounds, thousand packets/s forwarded, and % of CPU 1
 * that was busy. */
#include "../common/load.h"
#include "../common/packet.h"
#include "../common/xsk.h"
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>

#define PERIOD 1000000ull
#define CHUNK 2048
#define CHUNKS 8192

enum wait { SPIN, PPOLL, SLACK, ADAPTIVE, TIMERFD, THREAD, FIFO };
enum load_kind { IDLE, SATURATED, CONTENDED };
static const char *loads[] = {"idle", "saturated", "contended"};
static const struct way {
	const char *name;
	bool packet;
	enum wait wait;
	int batch;
} ways[] = {
	{"AF_XDP, spin", false, SPIN, 64},	   {"AF_XDP, spin, batches of 256", false, SPIN, 256},
	{"AF_XDP, ppoll", false, PPOLL, 64},	   {"AF_XDP, slack", false, SLACK, 64},
	{"AF_XDP, adaptive", false, ADAPTIVE, 64}, {"AF_XDP, timerfd", false, TIMERFD, 64},
	{"AF_XDP, thread", false, THREAD, 64},	   {"AF_XDP, fifo", false, FIFO, 64},
	{"AF_PACKET, spin", true, SPIN, 64},	   {"AF_PACKET, adaptive", true, ADAPTIVE, 64},
};
#define WAYS ((int)(sizeof ways / sizeof *ways))
#define MOST 20000

static struct lateness {
	double us[MOST];
	int count;
	uint64_t due;
} *late;

static void handle(void)
{
	uint64_t at = now();
	if (at < late->due)
		return;
	if (late->count < MOST)
		late->us[late->count++] = (at - late->due) / 1e3;
	for (; late->due <= at; late->due += PERIOD)
		;
}

static void *timer_thread(void *argument)
{
	const struct way *w = argument;
	pin(1);
	prctl(PR_SET_TIMERSLACK, 1);
	if (w->wait == FIFO)
		need(sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){1}));
	for (;;) {
		struct timespec until = {late->due / 1000000000, late->due % 1000000000};
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
		handle();
	}
	return NULL;
}

static struct xsk in, out;
static int from, to;

static int forward_xsk(int batch)
{
	struct xdp_desc packet;
	int got = 0;
	while (got < batch && tx_room(&out) && pop_received(&in, &packet)) {
		push_desc(&out, packet.addr, packet.len, 0);
		got++;
	}
	if (got)
		kick(&out);
	uint32_t left = completed(&out);
	for (; left; left--)
		push_fill(&in, pop_completed(&out) / CHUNK * CHUNK);
	free_completed(&out);
	return got;
}

static int forward_packet(int batch)
{
	static uint8_t buffers[256][CHUNK];
	static struct mmsghdr messages[256];
	static struct iovec pieces[256];
	for (int i = 0; i < batch; i++) {
		pieces[i] = (struct iovec){buffers[i], CHUNK};
		messages[i].msg_hdr = (struct msghdr){.msg_iov = &pieces[i], .msg_iovlen = 1};
	}
	int got = recvmmsg(from, messages, batch, MSG_DONTWAIT, NULL);
	for (int i = 0; i < got; i++)
		pieces[i].iov_len = messages[i].msg_len;
	for (int sent = 0, n; sent < got; sent += n > 0 ? n : 1)
		n = sendmmsg(to, messages + sent, got - sent, MSG_DONTWAIT);
	return got > 0 ? got : 0;
}

static int open_packet(const char *device, bool receives)
{
	int fd = need(socket(AF_PACKET, SOCK_RAW, 0)), on = 1, bytes = 1 << 24;
	struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_ifindex = if_nametoindex(device),
				 .sll_protocol = receives ? htons(0x0003) : 0};
	need(setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes));
	need(setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof on));
	need(bind(fd, (void *)&at, sizeof at));
	return fd;
}

static void open_ports(const struct way *w, struct object *o)
{
	enter("tm-sink");
	attach(load(o, "sink", BPF_PROG_TYPE_XDP, BPF_XDP, 0), if_nametoindex("i"), BPF_XDP, DRIVER_MODE);
	enter("tm-box");
	if (w->packet) {
		from = open_packet("in", true);
		to = open_packet("out", false);
		return;
	}
	size_t bytes = (size_t)CHUNK * CHUNKS;
	uint8_t *region = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	open_xsk(&in, if_nametoindex("in"), region, bytes, CHUNK, NULL);
	open_xsk(&out, if_nametoindex("out"), region, bytes, CHUNK, &in);
	for (int i = 0; i < RING; i++)
		push_fill(&in, (uint64_t)i * CHUNK);
	set_word(map_fd(o, "sockets"), 0, in.fd);
	attach(load(o, "receive", BPF_PROG_TYPE_XDP, BPF_XDP, 0), if_nametoindex("in"), BPF_XDP, DRIVER_MODE);
	from = in.fd;
}

static void source(void)
{
	static uint8_t frame[FRAME];
	struct headers *h = (void *)frame;
	*h = (struct headers){.to = {2, 0, 0, 0, 0, 1}, .type = htons(0x0800), .version = 0x45};
	pin(0);
	enter("tm-source");
	struct object o;
	open_object(&o, PROGRAMS, NULL, 0);
	int device = if_nametoindex("s");
	set_word(map_fd(&o, "devices"), 0, device);
	struct xdp_md context = {.data_end = sizeof frame, .ingress_ifindex = device};
	int program = load(&o, "source", BPF_PROG_TYPE_XDP, BPF_XDP, 0);
	union bpf_attr attr = {.test = {.prog_fd = program, .data_in = (uintptr_t)frame, .data_size_in = sizeof frame,
					.ctx_in = (uintptr_t)&context, .ctx_size_in = sizeof context, .repeat = 1 << 21,
					.flags = BPF_F_TEST_XDP_LIVE_FRAMES, .batch_size = 64}};
	while (!bpf(BPF_PROG_TEST_RUN, &attr))
		;
	fail("source");
}

static void measure(const struct way *w, enum load_kind kind, double seconds, double *result)
{
	struct object o;
	open_object(&o, PROGRAMS, NULL, 0);
	open_ports(w, &o);
	pin(1);
	prctl(PR_SET_TIMERSLACK, w->wait == PPOLL || w->wait == TIMERFD ? 50000 : 1);
	pid_t others[2];
	int other_count = 0;
	for (int i = IDLE; i < (int)kind; i++) {
		if (!(others[other_count++] = need(fork()))) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (!i)
				source();
			for (volatile uint64_t n = 0;; n++)
				;
		}
	}
	usleep(100000);
	int epoll = need(epoll_create1(0)), timer = need(timerfd_create(CLOCK_MONOTONIC, 0));
	struct epoll_event event = {.events = EPOLLIN, .data.fd = timer};
	need(epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &event));
	event.data.fd = from;
	need(epoll_ctl(epoll, EPOLL_CTL_ADD, from, &event));
	uint64_t began = now(), end = began + seconds * 1e9, packets = 0, word;
	double busy_before = busy(1);
	int first = late->count;
	late->due = began + PERIOD;
	pthread_t thread;
	if (w->wait == TIMERFD) {
		struct itimerspec at = {{0, PERIOD}, {late->due / 1000000000, late->due % 1000000000}};
		need(timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, NULL));
	}
	if (w->wait == THREAD || w->wait == FIFO)
		pthread_create(&thread, NULL, timer_thread, (void *)w);
	bool owns = w->wait < THREAD;
	for (int got = 0; now() < end;) {
		bool waits = w->wait == PPOLL || w->wait == SLACK || (w->wait >= ADAPTIVE && w->wait != TIMERFD && !got);
		if (waits) {
			uint64_t at = now(), left = owns ? (late->due > at ? late->due - at : 0) : PERIOD;
			struct timespec timeout = {0, left};
			struct pollfd fd = {from, POLLIN, 0};
			ppoll(&fd, 1, &timeout, NULL);
		}
		if (w->wait == TIMERFD) {
			struct epoll_event events[2];
			int n = epoll_wait(epoll, events, 2, 10);
			for (int i = 0; i < n; i++)
				if (events[i].data.fd == timer && read(timer, &word, sizeof word) == sizeof word)
					handle();
		}
		got = w->packet ? forward_packet(w->batch) : forward_xsk(w->batch);
		packets += got;
		if (owns && w->wait != TIMERFD)
			handle();
	}
	double time = (now() - began) / 1e9;
	result[0] = packets / time / 1e3;
	result[1] = (busy(1) - busy_before) / time * 100;
	if (late->count == first)
		fprintf(stderr, "%s: the timer was not handled\n", w->name);
	/* They hold the programs' links, too. */
	while (other_count) {
		kill(others[--other_count], SIGKILL);
		waitpid(others[other_count], NULL, 0);
	}
	_exit(0);
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 0.8;
	int rounds = argc > 2 ? atoi(argv[2]) : 3, only = argc > 3 ? atoi(argv[3]) : -1;
	static double rates[WAYS][3][2][16];
	struct shared {
		double result[2];
		struct lateness late[WAYS][3];
	} *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	run("for n in tm-source tm-box tm-sink; do ip netns del $n 2>/dev/null; ip netns add $n; done; "
	    "ip link add s netns tm-source numtxqueues 1 numrxqueues 1 type veth peer name in netns tm-box numtxqueues 1 "
	    "numrxqueues 1 && ip link add out netns tm-box numtxqueues 1 numrxqueues 1 type veth peer name i netns tm-sink && "
	    "for at in tm-source:s tm-box:in tm-box:out tm-sink:i; do ip -n ${at%%:*} link set ${at#*:} up; done; "
	    "ip netns exec tm-box ethtool -K in gro on");
	for (int round = 0; round < rounds; round++)
		for (int kind = 0; kind < 3; kind++)
			for (int i = 0; i < WAYS; i++) {
				if (only >= 0 && kind != only)
					continue;
				late = &shared->late[i][kind];
				pid_t child = need(fork());
				if (!child)
					measure(&ways[i], kind, seconds, shared->result);
				waitpid(child, NULL, 0);
				rates[i][kind][0][round] = shared->result[0];
				rates[i][kind][1][round] = shared->result[1];
			}
	printf("lateness in us: p50, p99, greatest; thousand packets/s; %% of CPU 1\n");
	for (int kind = 0; kind < 3; kind++)
		for (int i = 0; i < WAYS; i++) {
			struct lateness *l = &shared->late[i][kind];
			if (!l->count)
				continue;
			qsort(l->us, l->count, sizeof *l->us, ascending);
			printf("| %-28s | %-9s | %7.1f | %7.1f | %7.1f | %4.0f | %3.0f |\n", ways[i].name, loads[kind],
			       l->us[l->count / 2], l->us[l->count * 99 / 100], l->us[l->count - 1],
			       median(rates[i][kind][0], rounds), median(rates[i][kind][1], rounds));
		}
	run("for n in tm-source tm-box tm-sink; do ip netns del $n; done");
}
