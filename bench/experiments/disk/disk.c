/* Recording: what it costs to write the payloads of a stream (1316 bytes each, in frames of 2 KiB) to a file, 1 MiB
 * at a time, and how long the thread that does it is away.
 *
 *   writev           800 pieces of 1316 bytes (1.004 MiB) in one writev(2), through the page cache
 *   copy, write      copied into one block of 1 MiB, then write(2), through the page cache
 *   copy, direct     the block by pwrite(2) with O_DIRECT
 *   copy, uring      the block by io_uring with O_DIRECT, from eight registered blocks; without a free one it is lost
 *   writev, uring    800 pieces by io_uring, through the page cache, eight at a time; lost likewise
 *
 * `fast`: as fast as it goes to a file in DIR (default .), blocks waited for, 512 MiB and an fdatasync(2). `slow`: 25
 * MiB/s (200 Mbit/s) and 100 MiB/s are offered to a loop device that cgroups (version 1) keep at 50 MiB/s and that may
 * have 64 MiB of unwritten pages. The file is there before: blocks are overwritten.
 *
 * usage: bench/experiments/run disk fast|slow [rounds] [DIR]                                       (as root)
 *
 * Prints medians: CPU ms per MiB of the whole machine and of the thread, MiB/s, the thread's longest absence in a call
 * in ms, and % of the blocks lost. */
#include "uring.h"

#define PIECE 1316
#define PIECES 800
#define FRAME 2048
#define BLOCK (1 << 20)
#define BLOCKS 8
#define FRAMES 16384

enum way { WRITEV, COPY_WRITE, COPY_DIRECT, COPY_URING, WRITEV_URING, WAYS };
static const char *names[] = {"writev", "copy, write", "copy, direct", "copy, uring", "writev, uring"};

static uint8_t *frames, *blocks[BLOCKS];
static uint32_t order[FRAMES], next_frame;
static struct iovec pieces[BLOCKS][PIECES];

/* The frames of the next packets: in no order, as they come back from rings. */
static uint8_t *packet(void)
{
	return frames + (uint64_t)order[next_frame++ % FRAMES] * FRAME + 54;
}

static void gather(struct iovec *to)
{
	for (int i = 0; i < PIECES; i++)
		to[i] = (struct iovec){packet(), PIECE};
}

static void copy(uint8_t *to)
{
	static int left; /* of a packet that the last block has cut */
	static const uint8_t *rest = NULL;
	int at = left;
	if (left)
		memcpy(to, rest + PIECE - left, left);
	for (left = 0; at < BLOCK; at += PIECE) {
		uint8_t *from = packet();
		int bytes = BLOCK - at < PIECE ? BLOCK - at : PIECE;
		memcpy(to + at, from, bytes);
		if (bytes < PIECE) {
			rest = from;
			left = PIECE - bytes;
		}
	}
}

struct result {
	double machine, thread, rate, longest, lost;
};

static void write_all(enum way way, const char *path, double rate, double amount, struct result *result)
{
	bool direct = way == COPY_DIRECT || way == COPY_URING, uring = way >= COPY_URING;
	int file = need(open(path, O_WRONLY | (direct ? O_DIRECT : 0)));
	size_t unit = way == WRITEV || way == WRITEV_URING ? (size_t)PIECE * PIECES : BLOCK;
	static struct uring u;
	uint8_t free_blocks[BLOCKS];
	int free_count = 0;
	if (uring) {
		struct iovec registered[BLOCKS];
		open_uring(&u, BLOCKS);
		for (int i = 0; i < BLOCKS; i++) {
			registered[i] = (struct iovec){blocks[i], BLOCK};
			free_blocks[free_count++] = i;
		}
		if (way == COPY_URING)
			need(syscall(SYS_io_uring_register, u.fd, IORING_REGISTER_BUFFERS, registered, BLOCKS));
	}
	int count = amount / unit, lost = 0, written = 0;
	double busy_before = busy(-1), longest = 0;
	uint64_t began = now(), cpu = clock_of(CLOCK_THREAD_CPUTIME_ID);
	for (int i = 0; i < count; i++) {
		if (rate) {
			uint64_t due = began + i * (unit / rate * 1e9);
			struct timespec at = {due / 1000000000, due % 1000000000};
			clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
		}
		uint64_t call = now(), offset = (uint64_t)written * unit;
		if (uring) {
			for (int64_t done; (done = completed_write(&u, !rate && !free_count)) >= 0;)
				free_blocks[free_count++] = done;
			if (!free_count) {
				lost++;
				continue;
			}
			int b = free_blocks[--free_count];
			if (way == COPY_URING) {
				copy(blocks[b]);
				begin_write(&u, IORING_OP_WRITE_FIXED, file, blocks[b], BLOCK, offset, b, b);
			} else {
				gather(pieces[b]);
				begin_write(&u, IORING_OP_WRITEV, file, pieces[b], PIECES, offset, -1, b);
			}
		} else if (way == WRITEV) {
			gather(pieces[0]);
			if (need(writev(file, pieces[0], PIECES)) != (ssize_t)unit)
				fail("writev");
		} else {
			copy(blocks[0]);
			if (need(pwrite(file, blocks[0], BLOCK, offset)) != BLOCK)
				fail("write");
		}
		written++;
		double away = (now() - call) / 1e6;
		longest = away > longest ? away : longest;
	}
	while (uring && free_count < BLOCKS)
		if (completed_write(&u, true) >= 0)
			free_count++;
	double thread = (clock_of(CLOCK_THREAD_CPUTIME_ID) - cpu) / 1e6;
	need(fdatasync(file));
	double time = (now() - began) / 1e9, mib = (double)written * unit / BLOCK;
	result->machine = (busy(-1) - busy_before) * 1e3 / mib;
	result->thread = thread / mib;
	result->rate = mib / time;
	result->longest = longest;
	result->lost = lost * 100.0 / count;
	close(file);
	if (uring)
		close(u.fd);
}

static void prepare(void)
{
	frames = mmap(NULL, (size_t)FRAMES * FRAME, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(frames, 0x47, (size_t)FRAMES * FRAME);
	for (uint32_t i = 0; i < FRAMES; i++)
		order[i] = i * 7919u % FRAMES;
	for (int i = 0; i < BLOCKS; i++)
		if (posix_memalign((void **)&blocks[i], 4096, BLOCK))
			fail("memory");
		else
			memset(blocks[i], 1, BLOCK);
}

/* A loop device with a file system, throttled; returns its name. */
static void make_slow(const char *folder, char *device)
{
	run("mkdir -p %s/slow && truncate -s 1400M %s/slow.image && mkfs.ext4 -q -F %s/slow.image", folder, folder, folder);
	char command[256];
	snprintf(command, sizeof command, "losetup --direct-io=on -f --show %s/slow.image", folder);
	FILE *f = popen(command, "r");
	if (fscanf(f, "%63s", device) != 1)
		fail("losetup");
	pclose(f);
	run("mount %s %s/slow && echo %d > /sys/fs/cgroup/blkio/tasks", device, folder, getpid());
	run("fallocate -l 1200M %s/slow/file && dd if=/dev/zero of=%s/slow/file bs=1M count=1200 conv=notrunc,fsync "
	    "status=none",
	    folder, folder);
	run("n=$(lsblk -no MAJ:MIN %s | tr -d ' '); "
	    "echo \"$n 52428800\" > /sys/fs/cgroup/blkio/blkio.throttle.write_bps_device; "
	    "echo 1 > /sys/class/bdi/$n/strict_limit; echo 67108864 > /sys/class/bdi/$n/max_bytes",
	    device);
}

static void remove_slow(const char *folder, const char *device)
{
	run("n=$(lsblk -no MAJ:MIN %s | tr -d ' '); echo \"$n 0\" > /sys/fs/cgroup/blkio/blkio.throttle.write_bps_device; "
	    "echo 0 > /sys/class/bdi/$n/strict_limit; umount %s/slow; losetup -d %s; rm -rf %s/slow %s/slow.image",
	    device, folder, device, folder, folder);
}

int main(int argc, char **argv)
{
	bool slow = argc > 1 && !strcmp(argv[1], "slow");
	int rounds = argc > 2 ? atoi(argv[2]) : 3;
	const char *folder = argc > 3 ? argv[3] : ".";
	char path[256], device[64];
	double rates[] = {0, 0}, amounts[] = {512.0 * BLOCK, 0};
	static struct result results[2][WAYS][16];
	prepare();
	snprintf(path, sizeof path, slow ? "%s/slow/file" : "%s/recording", folder);
	if (slow) {
		make_slow(folder, device);
		rates[0] = 25.0 * BLOCK, rates[1] = 100.0 * BLOCK;
		amounts[0] = 30.0 * BLOCK, amounts[1] = 100.0 * BLOCK;
	} else {
		run("dd if=/dev/zero of=%s bs=1M count=520 conv=fsync status=none", path);
	}
	for (int round = 0; round < rounds; round++)
		for (int kind = 0; kind < 1 + slow; kind++)
			for (int way = 0; way < WAYS; way++)
				write_all(way, path, rates[kind], amounts[kind], &results[kind][way][round]);
	printf("| way | offered MiB/s | machine ms/MiB | thread ms/MiB | MiB/s | longest ms | lost %% |\n");
	for (int kind = 0; kind < 1 + slow; kind++)
		for (int way = 0; way < WAYS; way++) {
			double columns[5][16];
			for (int i = 0; i < rounds; i++) {
				struct result *r = &results[kind][way][i];
				double row[5] = {r->machine, r->thread, r->rate, r->longest, r->lost};
				for (int j = 0; j < 5; j++)
					columns[j][i] = row[j];
			}
			printf("| %-13s | %3.0f | %.3f | %.3f | %.0f | %.1f | %.0f |\n", names[way], rates[kind] / BLOCK,
			       median(columns[0], rounds), median(columns[1], rounds), median(columns[2], rounds),
			       median(columns[3], rounds), median(columns[4], rounds));
		}
	if (slow)
		remove_slow(folder, device);
	else
		unlink(path);
}
