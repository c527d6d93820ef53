#!/usr/bin/python3
"""A camera for trying the media proxy: a live test picture with a tone at rtsp://HOST:8554/test, by GStreamer; at
rtsp://HOST:8554/tcp one that it sends on connections only.

Needs python3-gi, gir1.2-gst-rtsp-server-1.0 and gstreamer1.0-plugins-{base,good,ugly} (Debian's own Python).
"""

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtsp, GstRtspServer  # noqa: E402

PICTURE = "videotestsrc is-live=1 ! video/x-raw,width=640,height=360,framerate=25/1 ! x264enc tune=zerolatency ! rtph264pay name=pay0"
TONE = "audiotestsrc is-live=1 ! alawenc ! rtppcmapay name=pay1"

Gst.init(None)
server = GstRtspServer.RTSPServer(address="::", service="8554")
transports = GstRtsp.RTSPLowerTrans
for path, protocols in [("/test", transports.UDP | transports.TCP), ("/tcp", transports.TCP)]:
    factory = GstRtspServer.RTSPMediaFactory()
    factory.set_launch(f"( {PICTURE} {TONE} )")
    factory.set_shared(True)
    factory.set_protocols(protocols)
    server.get_mount_points().add_factory(path, factory)
server.attach(None)
GLib.MainLoop().run()
