/* Frames: what a region of 8192 to 131,072 frames of 2 KiB costs as ordinary pages, as transparent huge pages (madvise)
 * and as pages of hugetlbfs: to get and touch it, to register it with AF_XDP, to give it back; and how fast packets are
 * forwarded when all frames are used in turn (`turn`), or the ones that came back last (`last`, measured after it).
 *
 * Forwarding is as in `fanout`: one thread on CPU 1 sends 32 packets of 1370 bytes by a packet socket, receives them
 * by AF_XDP, writes both MAC addresses, and sends them on to a sink on the same CPU. `memory` is the same without a
 * network: of 32 frames at a time the first two cache lines are read, then written, in a random order of frames.
 *
 * usage: bench/experiments/run frames [seconds per case] [rounds]                                  (as root)
 *
 * Prints medians: ms to touch, to register, to give back; MiB of huge pages that it got and KiB of page tables; ns per
 * packet in memory; ns per packet forwarded, in turn and last. In a virtual machine the first touch of memory depends
 * on what was in use before: `touch` does not compare kinds of pages. */
#include "../common/load.h"
#include "../common/packet.h"
#include "../common/xsk.h"
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/if.h>

#define SIZE 2048
#define HUGE (2ul << 20)

enum pages { SMALL, TRANSPARENT, HUGETLB };
static const char *names[] = {"4 KiB", "transparent", "hugetlb"};
static const int numbers[] = {8192, 32768, 131072};

static long field(const char *path, const char *name)
{
	char line[256];
	long value = 0;
	FILE *f = fopen(path, "r");
	while (f && fgets(line, sizeof line, f))
		if (!strncmp(line, name, strlen(name)))
			value += atol(line + strlen(name));
	if (f)
		fclose(f);
	return value;
}

static uint8_t *region_of(enum pages pages, size_t bytes)
{
	/* Room to align it. */
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | (pages == HUGETLB ? MAP_HUGETLB : 0);
	uint8_t *at = mmap(NULL, bytes + (pages == HUGETLB ? 0 : HUGE), PROT_READ | PROT_WRITE, flags, -1, 0);
	if (at == MAP_FAILED)
		fail("region");
	at = (uint8_t *)(((uintptr_t)at + HUGE - 1) & ~(HUGE - 1));
	if (pages != HUGETLB)
		madvise(at, bytes, pages == TRANSPARENT ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	return at;
}

/* Free frames: a queue, or a stack. */
static uint64_t *free_frames;
static uint32_t head, tail, frame_count;
static bool last;

static uint64_t take(void)
{
	return last ? free_frames[--tail] : free_frames[head++ % frame_count];
}

static void give(uint64_t frame)
{
	if (last)
		free_frames[tail++] = frame;
	else
		free_frames[tail++ % frame_count] = frame;
}

static double in_memory(uint8_t *region, double seconds)
{
	uint64_t sum = 0, packets = 0, began = now(), frames[32];
	for (; now() - began < seconds * 1e9; packets += 32) {
		for (int i = 0; i < 32; i++) {
			uint64_t *f = (void *)(region + (frames[i] = take()) + 256);
			sum += f[0] + f[8];
		}
		for (int i = 0; i < 32; i++) {
			uint64_t *f = (void *)(region + frames[i] + 256);
			f[0] = f[8] = sum;
			give(frames[i]);
		}
	}
	return (double)(now() - began) / packets;
}

static struct xsk in, out;
static volatile uint64_t *counts;

static void refill(uint32_t *filled)
{
	for (; *filled < 2048; ++*filled)
		push_fill(&in, take());
}

static double forwarded(uint8_t *region, int source, double seconds, uint32_t *filled)
{
	static uint8_t frame[FRAME];
	struct headers *h = (void *)frame;
	*h = (struct headers){.to = {2, 0, 0, 0, 0, 1}, .type = htons(0x0800), .version = 0x45};
	struct mmsghdr messages[32];
	struct iovec piece = {frame, FRAME};
	for (int i = 0; i < 32; i++)
		messages[i].msg_hdr = (struct msghdr){.msg_iov = &piece, .msg_iovlen = 1};
	uint64_t before = counts[0], began = now();
	while (now() - began < seconds * 1e9) {
		struct xdp_desc packet;
		need(sendmmsg(source, messages, 32, 0));
		while (pop_received(&in, &packet)) {
			uint64_t *words = (void *)(region + packet.addr);
			words[0] ^= words[1];
			push_desc(&out, packet.addr, packet.len, 0);
			--*filled;
		}
		kick(&out);
		for (uint32_t left = completed(&out); left; left--)
			give(pop_completed(&out) / SIZE * SIZE);
		free_completed(&out);
		refill(filled);
	}
	return (double)(now() - began) / (counts[0] - before);
}

#define RESULTS 8

static void measure(int count, enum pages pages, double seconds, int result_fd)
{
	double result[RESULTS];
	size_t bytes = (size_t)count * SIZE;
	pin(1);
	long tables = field("/proc/self/status", "VmPTE:");
	uint64_t at = now();
	uint8_t *region = region_of(pages, bytes);
	for (size_t i = 0; i < bytes; i += 4096)
		region[i] = 1;
	result[0] = (now() - at) / 1e6;
	result[3] = field("/proc/self/smaps", pages == HUGETLB ? "Private_Hugetlb:" : "AnonHugePages:") / 1024.0;
	result[4] = field("/proc/self/status", "VmPTE:") - tables;
	frame_count = count;
	free_frames = malloc(count * sizeof *free_frames);
	for (int i = 0; i < count; i++)
		free_frames[i] = (uint64_t)i * SIZE;
	srand(1);
	for (int i = count - 1; i > 0; i--) {
		int j = ((uint64_t)rand() << 16 ^ rand()) % (i + 1);
		uint64_t one = free_frames[i];
		free_frames[i] = free_frames[j];
		free_frames[j] = one;
	}
	tail = count;
	in_memory(region, seconds / 4);
	result[5] = in_memory(region, seconds / 2);
	/* The kernel's part. */
	struct object o;
	open_object(&o, PROGRAMS, NULL, 0);
	counts = map_memory(map_fd(&o, "counts"), 4096);
	enter("fr-sink");
	attach(load(&o, "sink", BPF_PROG_TYPE_XDP, BPF_XDP, 0), if_nametoindex("i"), BPF_XDP, DRIVER_MODE);
	enter("fr-box");
	int other = need(socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0));
	struct xdp_umem_reg umem;
	memset(&umem, 0, sizeof umem);
	umem.addr = (uintptr_t)region;
	umem.len = bytes;
	umem.chunk_size = SIZE;
	at = now();
	need(setsockopt(other, SOL_XDP, XDP_UMEM_REG, &umem, sizeof umem));
	result[1] = (now() - at) / 1e6;
	close(other);
	open_xsk(&in, if_nametoindex("in"), region, bytes, SIZE, NULL);
	open_xsk(&out, if_nametoindex("out"), region, bytes, SIZE, &in);
	set_word(map_fd(&o, "sockets"), 0, in.fd);
	attach(load(&o, "receive", BPF_PROG_TYPE_XDP, BPF_XDP, 0), if_nametoindex("in"), BPF_XDP, DRIVER_MODE);
	enter("fr-source");
	int source = need(socket(AF_PACKET, SOCK_RAW, 0)), on = 1;
	struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_ifindex = if_nametoindex("s")};
	need(bind(source, (void *)&to, sizeof to));
	need(setsockopt(source, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof on));
	uint32_t filled = 0;
	refill(&filled);
	forwarded(region, source, seconds / 4, &filled);
	result[6] = forwarded(region, source, seconds, &filled);
	/* A stack from the same frames; those in the fill ring stay there. */
	uint32_t left = tail - head;
	uint64_t *stack = malloc(count * sizeof *stack);
	for (uint32_t i = 0; i < left; i++)
		stack[i] = free_frames[(head + i) % frame_count];
	free_frames = stack;
	head = 0;
	tail = left;
	last = true;
	forwarded(region, source, seconds / 4, &filled);
	result[7] = forwarded(region, source, seconds, &filled);
	close(in.fd);
	close(out.fd);
	usleep(50000);
	at = now();
	munmap(region, bytes);
	result[2] = (now() - at) / 1e6;
	need(write(result_fd, result, sizeof result));
	_exit(0);
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 0.5;
	int rounds = argc > 2 ? atoi(argv[2]) : 3;
	static double results[3][3][RESULTS][16];
	long had = field("/proc/sys/vm/nr_hugepages", "");
	run("echo 1 > /proc/sys/vm/compact_memory; echo 136 > /proc/sys/vm/nr_hugepages");
	if (field("/proc/sys/vm/nr_hugepages", "") < 128)
		fprintf(stderr, "too few huge pages: %ld\n", field("/proc/sys/vm/nr_hugepages", ""));
	run("for n in fr-source fr-box fr-sink; do ip netns del $n 2>/dev/null; ip netns add $n; done; "
	    "ip link add s netns fr-source numtxqueues 1 numrxqueues 1 type veth peer name in netns fr-box numtxqueues 1 "
	    "numrxqueues 1 && ip link add out netns fr-box numtxqueues 1 numrxqueues 1 type veth peer name i netns fr-sink && "
	    "for at in fr-source:s fr-box:in fr-box:out fr-sink:i; do ip -n ${at%%:*} link set ${at#*:} up; done");
	for (int round = 0; round < rounds; round++)
		for (int n = 0; n < 3; n++)
			for (int pages = SMALL; pages <= HUGETLB; pages++) {
				int ends[2];
				double result[RESULTS] = {0};
				need(pipe(ends));
				pid_t child = need(fork());
				if (!child)
					measure(numbers[n], pages, seconds, ends[1]);
				close(ends[1]);
				if (read(ends[0], result, sizeof result) != sizeof result)
					fprintf(stderr, "%d, %s: no result\n", numbers[n], names[pages]);
				close(ends[0]);
				waitpid(child, NULL, 0);
				for (int i = 0; i < RESULTS; i++)
					results[n][pages][i][round] = result[i];
			}
	printf("| frames | pages | touch ms | register ms | give back ms | huge MiB | tables KiB "
	       "| memory ns | turn ns | last ns |\n");
	for (int n = 0; n < 3; n++)
		for (int pages = SMALL; pages <= HUGETLB; pages++) {
			printf("| %6d | %-11s |", numbers[n], names[pages]);
			for (int i = 0; i < RESULTS; i++)
				printf(" %.*f |", i < 3 || i == 5 ? 1 : 0, median(results[n][pages][i], rounds));
			printf("\n");
		}
	run("for n in fr-source fr-box fr-sink; do ip netns del $n; done; echo %ld > /proc/sys/vm/nr_hugepages", had);
}
