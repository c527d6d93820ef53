/* The systems that are compared. */
#include "fanout.h"

static void start_source(struct setup *s)
{
	attach(load(&s->object, "drop", BPF_PROG_TYPE_XDP, BPF_XDP, 0), s->in, BPF_XDP, DRIVER_MODE);
}

static void fill_receivers(struct setup *s)
{
	int map = map_fd(&s->object, "receivers");
	for (uint32_t i = 0; i <= (uint32_t)s->receiver_count; i++)
		set(map, &i, &s->receivers[i]);
}

static void start_broadcast(struct setup *s)
{
	struct {
		uint32_t first, receivers, turn;
	} port;
	struct object object;
	/* A map of its own, as broadcast goes through all entries. */
	open_object(&object, PROGRAMS, "devices", s->receiver_count);
	int devices = map_fd(&object, "devices");
	for (int i = 0; i < object.map_count; i++)
		if (strcmp(object.maps[i].name, "devices"))
			object.maps[i].fd = map_fd(&s->object, object.maps[i].name);
	fill_receivers(s);
	int egress = load(&object, "egress", BPF_PROG_TYPE_XDP, BPF_XDP_DEVMAP, 0);
	for (uint32_t i = 0; i < (uint32_t)s->receiver_count; i++) {
		struct device_entry entry = {s->receivers[i].device, egress};
		set(devices, &i, &entry);
	}
	for (int k = 0; k < s->devices_used; k++) {
		uint32_t device = s->out[k];
		port.first = k * s->each;
		port.receivers = port.first + s->each > (uint32_t)s->receiver_count ? s->receiver_count - port.first : s->each;
		port.turn = 0;
		set(map_fd(&object, "ports"), &device, &port);
	}
	attach(load(&object, "broadcast", BPF_PROG_TYPE_XDP, BPF_XDP, 0), s->in, BPF_XDP, DRIVER_MODE);
}

static void start_clone(struct setup *s)
{
	fill_receivers(s);
	attach(load(&s->object, "clone", BPF_PROG_TYPE_SCHED_CLS, ATTACH_TCX_INGRESS, 0), s->in, ATTACH_TCX_INGRESS, 0);
}

const struct system systems[] = {
	{"source", start_source, NULL, false, 0},
	{"sendmmsg", start_sendmmsg, by_sendmmsg, true, 0},
	{"sendmmsg, gso of 8", start_sendmmsg, by_sendmmsg_gso, true, 8},
	{"sendmmsg, gso of 32", start_sendmmsg, by_sendmmsg_gso, true, 32},
	{"AF_PACKET sendmmsg, pieces", start_packet, by_packet, true, 0},
	{"AF_PACKET rings", start_rings, by_rings, true, 0},
	{"AF_PACKET, gso of 8", start_super, by_super, true, 8},
	{"AF_PACKET, gso of 32", start_super, by_super, true, 32},
	{"AF_XDP, copies", start_xsk, by_xsk_copies, true, 0},
	{"AF_XDP, shared payload", start_xsk, by_xsk_shared, true, 0},
	{"AF_XDP copies, budget 1024", start_xsk_budget, by_xsk_copies, true, 0},
	{"AF_XDP shared, budget 1024", start_xsk_budget, by_xsk_shared, true, 0},
	{"devmap broadcast", start_broadcast, NULL, true, 0},
	{"clone_redirect", start_clone, NULL, true, 0},
	{},
};
