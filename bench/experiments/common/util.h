/* Clocks, CPU time, numbers and commands for the experiments. */
#ifndef EXPERIMENT_UTIL_H
#define EXPERIMENT_UTIL_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static inline void fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

#define need(x) ({ typeof(x) value_ = (x); if ((long)value_ == -1) fail(#x); value_; })

static inline uint64_t clock_of(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

static inline uint64_t now(void)
{
	return clock_of(CLOCK_MONOTONIC);
}

static inline void pin(int cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	need(sched_setaffinity(0, sizeof set, &set));
}

/* Seconds in which CPUs of the machine were not idle, since it started; a hundredth exact. `cpu` -1: of all. */
static inline double busy(int cpu)
{
	char name[16], line[512];
	snprintf(name, sizeof name, cpu < 0 ? "cpu " : "cpu%d ", cpu);
	FILE *f = fopen("/proc/stat", "r");
	double sum = -1;
	while (f && fgets(line, sizeof line, f)) {
		unsigned long long user, nice, system, idle, wait, irq, soft;
		if (strncmp(line, name, strlen(name)))
			continue;
		sscanf(line + strlen(name), "%llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle, &wait,
		       &irq, &soft);
		sum = (user + nice + system + irq + soft) / 100.0;
		break;
	}
	if (f)
		fclose(f);
	return sum;
}

static inline int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Sorts the numbers. */
static inline double median(double *numbers, int count)
{
	qsort(numbers, count, sizeof *numbers, ascending);
	return count % 2 ? numbers[count / 2] : (numbers[count / 2 - 1] + numbers[count / 2]) / 2;
}

/* Runs a shell command that must succeed. */
static inline void run(const char *format, ...)
{
	char command[1024];
	va_list args;
	va_start(args, format);
	vsnprintf(command, sizeof command, format, args);
	va_end(args);
	if (system(command)) {
		fprintf(stderr, "failed: %s\n", command);
		exit(1);
	}
}

static inline void enter(const char *namespace)
{
	char path[64];
	snprintf(path, sizeof path, "/run/netns/%s", namespace);
	int fd = need(open(path, O_RDONLY | O_CLOEXEC));
	need(setns(fd, 0));
	close(fd);
}

#endif
