/* A tap: XDP forwards 94,000 packets/s of 1328 bytes (frames of 1370) from one veth device to another, and a thread in
 * user space gets a copy of each, by a BPF ring buffer or by a perf buffer.
 *
 * CPU 0: source (a packet socket, 19 packets every 202 µs), forwarding, sink. CPU 1: the reader, which waits in
 * epoll_wait(2) for 5 ms at most, looks at each cache line of each record, and counts. Then the same as fast as the
 * kernel's test run makes packets, without regard to the reader.
 *
 * usage: bench/experiments/run tap [seconds per case] [rounds] [KiB of the ring, a power of two]        (as root)
 *
 * Prints medians, and the greatest of losses: what CPU 0 was busy per packet (source, forwarding and sink), the run
 * time of the program alone by the kernel's statistics, the reader's CPU time in % and per packet, its waits that ended
 * by a wake-up, per 1000 packets, packets that found the ring full (of 10^6), packets that were not forwarded; and
 * millions of packets/s forwarded at the fastest, with how many of 100 the reader got. */
#include "../common/load.h"
#include "../common/packet.h"
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <linux/perf_event.h>
#include <net/if.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define RING ring_bytes
#define RATE 94000
#define RECORD 1384
#define WATERMARK (256 * 1392)

enum { SENT, FULL, TURN, SUNK };
static const char *ways[] = {"only", "adaptive", "counted", "watermark", "uncopied", "perf_event", NULL};

static struct object object;
static volatile uint64_t *counts;
static volatile bool over;
static int perf_fd;
static uint64_t ring_bytes = 1 << 22;
static char *consumer, *producer;

struct reader {
	uint64_t packets, wakes, timeouts, nanoseconds, sum;
	bool perf;
};

static uint64_t look(const void *data, int length)
{
	uint64_t sum = 0;
	for (int i = 0; i < length; i += 64)
		sum += ((const uint8_t *)data)[i];
	return sum;
}

static void drain_ring(struct reader *r)
{
	uint64_t at = *(volatile uint64_t *)consumer;
	uint64_t end = __atomic_load_n((uint64_t *)producer, __ATOMIC_ACQUIRE);
	while (at < end) {
		uint32_t *record = (void *)(producer + 4096 + (at & (RING - 1)));
		uint32_t length = __atomic_load_n(record, __ATOMIC_ACQUIRE);
		if (length & BPF_RINGBUF_BUSY_BIT)
			break;
		r->sum += look(record + 4, record[2]);
		r->packets++;
		at += (length + 8 + 7) & ~7u;
	}
	__atomic_store_n((uint64_t *)consumer, at, __ATOMIC_RELEASE);
}

static void drain_perf(struct reader *r)
{
	struct perf_event_mmap_page *page = (void *)consumer;
	uint64_t at = page->data_tail, end = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
	char *data = consumer + 4096;
	while (at < end) {
		struct perf_event_header *h = (void *)(data + (at & (RING - 1)));
		if (h->type == PERF_RECORD_SAMPLE) {
			/* A record may go around the end; its first part is enough to look at then. */
			uint64_t room = RING - (at & (RING - 1));
			r->sum += look(h, h->size < room ? h->size : room);
			r->packets++;
		}
		at += h->size;
	}
	__atomic_store_n(&page->data_tail, at, __ATOMIC_RELEASE);
}

static void *reading(void *argument)
{
	struct reader *r = argument;
	pin(1);
	int epoll = need(epoll_create1(EPOLL_CLOEXEC)), fd = r->perf ? perf_fd : map_fd(&object, "ring");
	struct epoll_event event = {.events = EPOLLIN | EPOLLET};
	need(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event));
	uint64_t began = clock_of(CLOCK_THREAD_CPUTIME_ID);
	while (!over) {
		int got = epoll_wait(epoll, &event, 1, 5);
		r->wakes += got > 0;
		r->timeouts += got == 0;
		if (r->perf)
			drain_perf(r);
		else
			drain_ring(r);
	}
	r->nanoseconds = clock_of(CLOCK_THREAD_CPUTIME_ID) - began;
	close(epoll);
	return NULL;
}

static void network(void)
{
	run("for n in tap-source tap-box tap-sink; do ip netns del $n 2>/dev/null; ip netns add $n; done; "
	    "ip link add s netns tap-source type veth peer name in netns tap-box && "
	    "ip link add out netns tap-box type veth peer name i netns tap-sink && "
	    "for at in tap-source:s tap-box:in tap-box:out tap-sink:i; do ip -n ${at%%:*} link set ${at#*:} up; done");
}

static void map_rings(bool perf)
{
	if (!perf) {
		int fd = map_fd(&object, "ring");
		consumer = map_memory(fd, 4096);
		producer = mmap(NULL, 4096 + 2 * RING, PROT_READ, MAP_SHARED, fd, 4096);
		if (producer == MAP_FAILED)
			fail("ring");
		return;
	}
	struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE, .size = sizeof attr, .config = PERF_COUNT_SW_BPF_OUTPUT,
				       .sample_period = 1, .sample_type = PERF_SAMPLE_RAW, .watermark = 1,
				       .wakeup_watermark = WATERMARK};
	perf_fd = need(syscall(SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC));
	consumer = mmap(NULL, 4096 + RING, PROT_READ | PROT_WRITE, MAP_SHARED, perf_fd, 0);
	if (consumer == MAP_FAILED)
		fail("perf buffer");
	set_word(map_fd(&object, "perf"), 0, perf_fd);
	need(ioctl(perf_fd, PERF_EVENT_IOC_ENABLE, 0));
}

static uint8_t frame[FRAME];

static uint64_t send_paced(double seconds)
{
	enter("tap-source");
	int fd = need(socket(AF_PACKET, SOCK_RAW, 0)), on = 1;
	struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_ifindex = if_nametoindex("s")};
	need(bind(fd, (void *)&at, sizeof at));
	need(setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof on));
	struct mmsghdr messages[64];
	struct iovec piece = {frame, FRAME};
	for (int i = 0; i < 64; i++)
		messages[i].msg_hdr = (struct msghdr){.msg_iov = &piece, .msg_iovlen = 1};
	uint64_t began = now(), sent = 0;
	while (now() - began < seconds * 1e9) {
		uint64_t due = (now() - began) * RATE / 1000000000 - sent;
		for (int n; due; due -= n, sent += n)
			n = need(sendmmsg(fd, messages, due < 64 ? due : 64, 0));
		struct timespec pause = {0, 202000};
		clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
	}
	close(fd);
	return sent;
}

static uint64_t send_fast(double seconds)
{
	enter("tap-source");
	struct object o;
	open_object(&o, PROGRAMS, NULL, 0);
	set_word(map_fd(&o, "devices"), 0, if_nametoindex("s"));
	struct xdp_md context = {.data_end = sizeof frame, .ingress_ifindex = if_nametoindex("s")};
	int source = load(&o, "source", BPF_PROG_TYPE_XDP, BPF_XDP, 0);
	union bpf_attr attr = {.test = {.prog_fd = source, .data_in = (uintptr_t)frame, .data_size_in = sizeof frame,
					.ctx_in = (uintptr_t)&context, .ctx_size_in = sizeof context,
					.repeat = seconds * 2000000, .flags = BPF_F_TEST_XDP_LIVE_FRAMES, .batch_size = 64}};
	if (bpf(BPF_PROG_TEST_RUN, &attr))
		fail("test run");
	return attr.test.repeat;
}

/* Results: busy ns, run ns, reader's share, reader's ns, wakes, full, lost; the fast case: Mpps, share. */
#define RESULTS 9

static void measure(int way, double seconds, int out)
{
	struct reader reader = {.perf = !strcmp(ways[way], "perf_event")};
	bool reads = way != 0;
	double result[RESULTS] = {0};
	open_object(&object, PROGRAMS, "ring", RING);
	counts = map_memory(map_fd(&object, "counts"), 4096);
	map_rings(reader.perf);
	enter("tap-sink");
	attach(load(&object, "sink", BPF_PROG_TYPE_XDP, BPF_XDP, 0), if_nametoindex("i"), BPF_XDP, DRIVER_MODE);
	enter("tap-box");
	set_word(map_fd(&object, "devices"), 0, if_nametoindex("out"));
	int program = load(&object, ways[way], BPF_PROG_TYPE_XDP, BPF_XDP, 0);
	attach(program, if_nametoindex("in"), BPF_XDP, DRIVER_MODE);
	for (int fast = 0; fast < 2; fast++) {
		pthread_t thread;
		struct bpf_prog_info before = {0}, after = {0};
		union bpf_attr info = {.info = {.bpf_fd = program, .info_len = sizeof before, .info = (uintptr_t)&before}};
		reader.packets = reader.wakes = reader.timeouts = 0;
		over = false;
		for (int i = 0; i < 8; i++)
			counts[i] = 0;
		if (reads)
			pthread_create(&thread, NULL, reading, &reader);
		pin(0);
		usleep(20000);
		double busy_before = busy(0);
		uint64_t began = now(), sent = fast ? send_fast(seconds / 4) : send_paced(seconds);
		double used = busy(0) - busy_before, time = (now() - began) / 1e9;
		usleep(20000);
		over = true;
		if (reads)
			pthread_join(thread, NULL);
		if (fast) {
			/* Setting the test run up takes 20 ms. */
			result[7] = counts[SUNK] / (time - 0.02) / 1e6;
			result[8] = reads ? reader.packets * 100.0 / sent : 0;
			continue;
		}
		result[0] = used / sent * 1e9;
		result[2] = reader.nanoseconds / time / 1e7;
		result[3] = reader.packets ? (double)reader.nanoseconds / reader.packets : 0;
		result[4] = reader.packets ? reader.wakes * 1000.0 / reader.packets : 0;
		result[5] = counts[FULL] * 1e6 / sent;
		result[6] = (double)sent - counts[SUNK];
		if (reads && way != 4 && llabs((long long)(reader.packets + counts[FULL] - sent)) > 8)
			fprintf(stderr, "%s: sent %lu, read %lu\n", ways[way], sent, reader.packets);
		/* Once more for the program's run time: its statistics take time themselves. */
		union bpf_attr stats = {.enable_stats = {.type = BPF_STATS_RUN_TIME}};
		int statistics = need(bpf(BPF_ENABLE_STATS, &stats));
		if (bpf(BPF_OBJ_GET_INFO_BY_FD, &info))
			fail("program's info");
		over = false;
		if (reads)
			pthread_create(&thread, NULL, reading, &reader);
		send_paced(seconds / 4);
		over = true;
		if (reads)
			pthread_join(thread, NULL);
		info.info.info = (uintptr_t)&after;
		bpf(BPF_OBJ_GET_INFO_BY_FD, &info);
		result[1] = (double)(after.run_time_ns - before.run_time_ns) / (after.run_cnt - before.run_cnt);
		close(statistics);
	}
	need(write(out, result, sizeof result));
	_exit(0);
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 2;
	int rounds = argc > 2 ? atoi(argv[2]) : 3;
	if (argc > 3)
		ring_bytes = 1024 * atol(argv[3]);
	static double results[8][RESULTS][16];
	struct headers *h = (void *)frame;
	*h = (struct headers){.type = htons(0x0800), .version = 0x45, .length = htons(FRAME - 14), .ttl = 64, .protocol = 17};
	network();
	for (int round = 0; round < rounds; round++)
		for (int way = 0; ways[way]; way++) {
			int ends[2];
			double result[RESULTS] = {0};
			need(pipe(ends));
			pid_t child = need(fork());
			if (!child)
				measure(way, seconds, ends[1]);
			close(ends[1]);
			if (read(ends[0], result, sizeof result) != sizeof result)
				fprintf(stderr, "%s failed\n", ways[way]);
			close(ends[0]);
			waitpid(child, NULL, 0);
			for (int i = 0; i < RESULTS; i++)
				results[way][i][round] = result[i];
		}
	printf("| way | CPU 0 ns | program ns | reader %% | reader ns | wakes/1000 | full | not forwarded | Mpps | read %% "
	       "|\n");
	for (int way = 0; ways[way]; way++) {
		printf("| %-10s |", ways[way]);
		for (int i = 0; i < RESULTS; i++) {
			/* Sorted by the median. Of what is lost the greatest counts. */
			double middle = median(results[way][i], rounds), most = results[way][i][rounds - 1];
			printf(" %.*f |", i < 2 || i == 3 || i == 5 || i == 6 || i == 8 ? 0 : 2, i == 5 || i == 6 ? most : middle);
		}
		printf("\n");
	}
	run("for n in tap-source tap-box tap-sink; do ip netns del $n; done");
}
