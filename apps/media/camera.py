#!/usr/bin/python3
"""A camera for trying the media proxy, by GStreamer: a live test picture with a tone at rtsp://HOST:8554/test, and a
film at rtsp://HOST:8554/film where a Matroska file (H.264, A-law) is given: camera.py [FILM].

Needs python3-gi, gir1.2-gst-rtsp-server-1.0 and gstreamer1.0-plugins-{base,good,ugly} (Debian's own Python).
"""

import socket
import sys

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtspServer  # noqa: E402

# A key frame each second: who comes late sees nothing before the next one.
PICTURE = (
    "videotestsrc is-live=1 ! video/x-raw,width=640,height=360,framerate=25/1"
    " ! x264enc tune=zerolatency key-int-max=25 ! rtph264pay name=pay0 config-interval=-1"
)
TONE = "audiotestsrc is-live=1 ! alawenc ! rtppcmapay name=pay1"
FILM = (
    "filesrc location={} ! matroskademux name=film film.video_0 ! queue ! rtph264pay name=pay0 config-interval=-1"
    " film.audio_0 ! queue ! rtppcmapay name=pay1"
)

Gst.init(None)
server = GstRtspServer.RTSPServer(service="8554", address="::" if socket.has_dualstack_ipv6() else "0.0.0.0")


def offer(path, pipeline, shared):
    factory = GstRtspServer.RTSPMediaFactory()
    factory.set_launch(f"( {pipeline} )")
    factory.set_shared(shared)
    server.get_mount_points().add_factory(path, factory)


offer("/test", f"{PICTURE} {TONE}", True)
if len(sys.argv) > 1:
    offer("/film", FILM.format(sys.argv[1]), False)
if not server.attach(None):
    sys.exit("camera: port 8554 is taken")
GLib.MainLoop().run()
