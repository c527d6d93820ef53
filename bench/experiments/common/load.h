/* A small loader of BPF objects: maps of five words in the section "maps", programs in sections of their own, without
 * functions that are called and without BTF. */
#ifndef EXPERIMENT_LOAD_H
#define EXPERIMENT_LOAD_H

#include "util.h"
#include <elf.h>
#include <linux/bpf.h>
#include <sys/mman.h>
#include <sys/syscall.h>

struct object {
	char *data;
	Elf64_Ehdr *head;
	Elf64_Shdr *sections;
	Elf64_Sym *symbols;
	int symbol_count;
	const char *strings;
	int maps_section;
	struct {
		char name[32];
		int fd;
	} maps[32];
	int map_count;
};

static inline long bpf(int command, union bpf_attr *attr)
{
	return syscall(SYS_bpf, command, attr, sizeof *attr);
}

static inline const char *section_name(struct object *o, int i)
{
	return o->data + o->sections[o->head->e_shstrndx].sh_offset + o->sections[i].sh_name;
}

/* Opens an object and makes its maps. Maps called `sized` have `entries` entries instead of their own. */
static inline void open_object(struct object *o, const char *path, const char *sized, int entries)
{
	memset(o, 0, sizeof *o);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		fail(path);
	off_t size = lseek(fd, 0, SEEK_END);
	o->data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	close(fd);
	o->head = (void *)o->data;
	o->sections = (void *)(o->data + o->head->e_shoff);
	for (int i = 0; i < o->head->e_shnum; i++) {
		if (o->sections[i].sh_type == SHT_SYMTAB) {
			o->symbols = (void *)(o->data + o->sections[i].sh_offset);
			o->symbol_count = o->sections[i].sh_size / sizeof *o->symbols;
			o->strings = o->data + o->sections[o->sections[i].sh_link].sh_offset;
		}
		if (!strcmp(section_name(o, i), "maps"))
			o->maps_section = i;
	}
	for (int i = 0; i < o->symbol_count; i++) {
		Elf64_Sym *s = &o->symbols[i];
		if (!o->maps_section || s->st_shndx != o->maps_section || ELF64_ST_TYPE(s->st_info) != STT_OBJECT)
			continue;
		uint32_t *map = (void *)(o->data + o->sections[o->maps_section].sh_offset + s->st_value);
		const char *name = o->strings + s->st_name;
		union bpf_attr attr = {.map_type = map[0], .key_size = map[1], .value_size = map[2],
				       .max_entries = sized && !strcmp(name, sized) ? entries : map[3],
				       .map_flags = map[4]};
		snprintf(o->maps[o->map_count].name, 32, "%s", name);
		o->maps[o->map_count].fd = bpf(BPF_MAP_CREATE, &attr);
		if (o->maps[o->map_count++].fd < 0)
			fail(name);
	}
}

static inline int map_fd(struct object *o, const char *name)
{
	for (int i = 0; i < o->map_count; i++)
		if (!strcmp(o->maps[i].name, name))
			return o->maps[i].fd;
	fprintf(stderr, "no map %s\n", name);
	exit(1);
}

static inline void set(int map, const void *key, const void *value)
{
	union bpf_attr attr = {.map_fd = map, .key = (uintptr_t)key, .value = (uintptr_t)value};
	if (bpf(BPF_MAP_UPDATE_ELEM, &attr))
		fail("map update");
}

static inline void set_word(int map, uint32_t key, uint32_t value)
{
	set(map, &key, &value);
}

/* Loads one program. `attach`: the attach type that it is checked for, or 0. */
static inline int load(struct object *o, const char *name, int type, int attach, int flags)
{
	static char log[1 << 20];
	int text = 0;
	char full[64];
	snprintf(full, sizeof full, "prog/%s", name);
	for (int i = 0; i < o->head->e_shnum; i++)
		if (!strcmp(section_name(o, i), full))
			text = i;
	if (!text) {
		fprintf(stderr, "no program %s\n", name);
		exit(1);
	}
	struct bpf_insn *code = (void *)(o->data + o->sections[text].sh_offset);
	for (int i = 0; i < o->head->e_shnum; i++) {
		Elf64_Shdr *s = &o->sections[i];
		if (s->sh_type != SHT_REL || (int)s->sh_info != text)
			continue;
		Elf64_Rel *r = (void *)(o->data + s->sh_offset);
		for (unsigned j = 0; j < s->sh_size / sizeof *r; j++) {
			struct bpf_insn *at = &code[r[j].r_offset / sizeof *code];
			at->src_reg = BPF_PSEUDO_MAP_FD;
			at->imm = map_fd(o, o->strings + o->symbols[ELF64_R_SYM(r[j].r_info)].st_name);
		}
	}
	union bpf_attr attr = {.prog_type = type, .insn_cnt = o->sections[text].sh_size / sizeof *code,
			       .insns = (uintptr_t)code, .license = (uintptr_t)"GPL", .expected_attach_type = attach,
			       .prog_flags = flags};
	int fd = bpf(BPF_PROG_LOAD, &attr);
	if (fd >= 0)
		return fd;
	attr.log_level = 1;
	attr.log_size = sizeof log;
	attr.log_buf = (uintptr_t)log;
	bpf(BPF_PROG_LOAD, &attr);
	int length = strlen(log);
	fprintf(stderr, "%s is refused: %s\n%s", name, strerror(errno), log + (length > 3000 ? length - 3000 : 0));
	exit(1);
}

/* Attaches a program to a device of this network namespace, until the descriptor is closed. */
static inline int attach(int program, int device, int type, int flags)
{
	union bpf_attr attr = {.link_create = {.prog_fd = program, .target_ifindex = device, .attach_type = type,
					       .flags = flags}};
	int fd = bpf(BPF_LINK_CREATE, &attr);
	if (fd < 0)
		fail("attach");
	return fd;
}

#define ATTACH_TCX_INGRESS 46
#define DRIVER_MODE (1 << 2)

static inline void *map_memory(int map, size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, map, 0);
	if (at == MAP_FAILED)
		fail("mmap of a map");
	return at;
}

/* A struct bpf_devmap_val. */
struct device_entry {
	uint32_t device;
	int program;
};

#endif
