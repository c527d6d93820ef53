#!/bin/sh
# Makes the files of this directory anew, with ffmpeg, libx264 and libx265. What pictures there are is what ffprobe says
# of MPEG-2 and H.264 (here nothing refers to a B-picture), and the headers of units, as ffmpeg reads them, of H.265:
# nothing refers to units of an even type below 15 in the highest sub-layer. That is known behind two key pictures.
set -e
cd "$(dirname "$0")"
make() {
    name=$1
    shift
    ffmpeg -y -v error -f lavfi -i testsrc2=size=128x96:rate=25 -f lavfi -i sine=frequency=440:sample_rate=32000 \
        -t 1.6 -map 0:v -map 1:a -c:a mp2 -b:a 32k -ac 1 "$@" -f mpegts "$name.ts"
}
make h264 -c:v libx264 -b:v 350k -g 15 -bf 2 -x264-params b-pyramid=none:scenecut=0:pbratio=0.5
make mpeg2 -c:v mpeg2video -b:v 120k -g 15 -bf 2
make h265 -c:v libx265 -b:v 350k -x265-params log-level=none:keyint=15:bframes=3:b-pyramid=1
for name in h264 mpeg2; do
    ffprobe -v error -select_streams v -show_entries frame=pkt_pos,pict_type,key_frame -of csv=p=0 "$name.ts" |
        awk -F, 'NF > 2 && $2 != "" { print $2, ($1 == 1 ? "K" : ($3 == "B" ? "D" : "-")) }' | sort -n > "$name.frames"
done
ffprobe -v error -select_streams v -show_entries packet=pos -of csv=p=0 h265.ts | tr -d ', ' | grep . > places
ffmpeg -v trace -i h265.ts -map 0:v -c copy -bsf:v trace_headers -f null - 2>&1 |
    grep -E 'nal_unit_type |nuh_temporal_id_plus1' | awk '{ print $NF }' | paste - - | awk '$1 < 32' > units
highest=$(awk '$2 > most { most = $2 } END { print most }' units)
paste -d' ' places units | sort -n | tr '\t' ' ' | awk -v highest="$highest" '
    { key = $2 >= 16; keys += key; unreferenced = $2 < 15 && $2 % 2 == 0 && $3 == highest && keys >= 2 }
    { print $1, (key ? "K" : (unreferenced ? "D" : "-")) }' > h265.frames
rm places units
