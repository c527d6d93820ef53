#!/usr/bin/python3
"""A camera for trying the media proxy, by GStreamer: a live test picture with a tone at rtsp://HOST:8554/test, the same
on connections only at rtsp://HOST:8554/tcp, and a film at rtsp://HOST:8554/film where a Matroska file (H.264, A-law) is
given: camera.py [FILM]. The same picture is at rtsp://HOST:8555/test for the user `viewer` with the password `secret`.

Needs python3-gi, gir1.2-gst-rtsp-server-1.0 and gstreamer1.0-plugins-{base,good,ugly} (Debian's own Python).
"""

import socket
import sys

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtsp, GstRtspServer  # noqa: E402

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
ANY = "::" if socket.has_dualstack_ipv6() else "0.0.0.0"
server = GstRtspServer.RTSPServer(service="8554", address=ANY)
guarded = GstRtspServer.RTSPServer(service="8555", address=ANY)
transports = GstRtsp.RTSPLowerTrans


def offer(path, pipeline, shared, protocols=transports.UDP | transports.TCP, at=server):
    factory = GstRtspServer.RTSPMediaFactory()
    factory.set_launch(f"( {pipeline} )")
    factory.set_shared(shared)
    factory.set_protocols(protocols)
    permissions = GstRtspServer.RTSPPermissions()
    for permission in "access", "construct":
        permissions.add_permission_for_role("viewer", f"media.factory.{permission}", True)
    if at is guarded:
        factory.set_permissions(permissions)
    at.get_mount_points().add_factory(path, factory)


offer("/test", f"{PICTURE} {TONE}", True)
offer("/tcp", f"{PICTURE} {TONE}", True, transports.TCP)
if len(sys.argv) > 1:
    offer("/film", FILM.format(sys.argv[1]), False)
token = GstRtspServer.RTSPToken()
token.set_string("media.factory.role", "viewer")
auth = GstRtspServer.RTSPAuth()
auth.set_supported_methods(GstRtsp.RTSPAuthMethod.DIGEST)
auth.add_digest("viewer", "secret", token)
guarded.set_auth(auth)
offer("/test", f"{PICTURE} {TONE}", True, at=guarded)
if not server.attach(None) or not guarded.attach(None):
    sys.exit("camera: port 8554 or 8555 is taken")
GLib.MainLoop().run()
