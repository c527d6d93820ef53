"""A viewer of a film that pauses, goes on and seeks, by GStreamer: player.py URL FIRST SECOND.

The H.264 stream up to the seek goes to the file FIRST, what comes from there on to SECOND; what it does is printed.
"""

import sys
import threading
import time

import gi

gi.require_version("Gst", "1.0")
from gi.repository import GLib, Gst  # noqa: E402

# Frames up to the pause and the seek; where it seeks to, in seconds; frames from there on.
PAUSE_AT, SEEK_AT, TARGET, END = 50, 75, 8, 75

Gst.init(None)
url, *paths = sys.argv[1:]
files = [open(path, "wb") for path in paths]
player = Gst.parse_launch(
    f"rtspsrc location={url} protocols=udp latency=500 ! rtph264depay"
    " ! video/x-h264,stream-format=byte-stream,alignment=au ! appsink name=sink emit-signals=true"
)
sink = player.get_by_name("sink")
loop = GLib.MainLoop()
part, frames = 0, [0, 0]


def say(text):
    print(text, flush=True)


def take(_):
    if frames[1] == END:
        return Gst.FlowReturn.EOS
    buffer = sink.emit("pull-sample").get_buffer()
    files[part].write(buffer.extract_dup(0, buffer.get_size()))
    frames[part] += 1
    if part == 0 and frames[0] == PAUSE_AT:
        threading.Thread(target=pause).start()
    if part == 0 and frames[0] == SEEK_AT:
        threading.Thread(target=seek).start()
    if frames[1] == END:
        loop.quit()
    return Gst.FlowReturn.OK


def pause():
    player.set_state(Gst.State.PAUSED)
    time.sleep(1)
    before = frames[0]
    time.sleep(1)
    say(f"paused: {frames[0] - before} frames in a second")
    player.set_state(Gst.State.PLAYING)


def seek():
    say(f"seeks to {TARGET} s")
    player.seek_simple(Gst.Format.TIME, Gst.SeekFlags.FLUSH | Gst.SeekFlags.KEY_UNIT, TARGET * Gst.SECOND)


def flushed(_, info):
    global part
    if info.get_event().type == Gst.EventType.FLUSH_STOP:
        part = 1
    return Gst.PadProbeReturn.OK


def told(_, message):
    if message.type == Gst.MessageType.ERROR:
        say(f"error: {message.parse_error()[0].message}")
        loop.quit()
    if message.type == Gst.MessageType.EOS:
        loop.quit()


sink.connect("new-sample", take)
sink.get_static_pad("sink").add_probe(Gst.PadProbeType.EVENT_FLUSH, flushed)
player.get_bus().add_signal_watch()
player.get_bus().connect("message", told)
player.set_state(Gst.State.PLAYING)
loop.run()
player.set_state(Gst.State.NULL)
for file in files:
    file.close()
say("done")
