#!/bin/sh
# Runs the library on unusual file systems and mounts, one place per call; probe.c is what it runs
# there.
#
#     tests/hosts/run.sh PROBE PLACE        overlay, tmpfs, quota_ext4, ... (see the end)
#
# Needs root for its mounts and its second user; if something is missing, it says what and exits
# with 77. The mounts are in their own namespace: they disappear with the last process, however it
# ends.
set -u

probe=$1 place=$2
skip() {
    echo "skipped: $*"
    exit 77
}

[ "$(uname)" = Linux ] || skip "the places are Linux's"
[ "$(id -u)" = 0 ] || skip "mounts and a second user want root"
if [ "${TENMAP_HOSTS_INSIDE:-}" != yes ]; then
    unshare -m true 2>/dev/null || skip "no mounts of our own here (unshare -m)"
    TENMAP_HOSTS_INSIDE=yes exec unshare -m sh "$0" "$@"
fi

work=$(mktemp -d) || exit 1
failures=0 holder=
clean() {
    [ -z "$holder" ] || kill "$holder" 2>/dev/null
    chattr -R -i -a "$work" 2>/dev/null
    for mounted in $(awk -v work="$work/" 'index($2, work) == 1 { print $2 }' /proc/mounts | sort -r); do
        chattr -R -i -a "$mounted" 2>/dev/null
        umount -l "$mounted"
    done
    rm -rf "$work"
}
trap clean EXIT
trap 'exit 130' INT TERM HUP
chmod 755 "$work"
cd "$work" || exit 1

other() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
second_user() {
    command -v setpriv >/dev/null || skip "setpriv (util-linux) is not here"
    cp "$probe" "$work/probe" && chmod 755 "$work/probe" && probe=$work/probe
    other "$probe" open / >/dev/null || skip "a second user cannot run the probe here"
}

# expect WANTED COMMAND...: the command's output must contain WANTED. A command that takes five
# minutes counts as hanging.
expect() {
    wanted=$1
    shift
    said=$(timeout 300 "$@" 2>&1)
    ended=$?
    case $said in
    *"$wanted"*) [ $ended -eq 0 ] && return ;;
    esac
    echo "FAILED: $*"
    echo "  wanted: $wanted"
    echo "  exit $ended: $said"
    failures=$((failures + 1))
}

# other_expects WANTED PROBE-ARGUMENT...: the same, as the second user.
other_expects() {
    wanted_there=$1
    shift
    expect "$wanted_there" setpriv --reuid 65534 --regid 65534 --clear-groups "$probe" "$@"
}

# same BEFORE FILE: no byte was changed.
same() {
    cmp -s "$1" "$2" || { echo "FAILED: $2 was changed"; failures=$((failures + 1)); }
}

# names FOLDER NAME...: the folder holds exactly these names.
names() {
    folder=$1
    shift
    found=$(ls -A "$folder" | sort | tr '\n' ' ') listed=$(printf '%s\n' "$@" | sort | tr '\n' ' ')
    [ $# -gt 0 ] || listed=
    [ "$found" = "$listed" ] || {
        echo "FAILED: $folder holds: $found, not: $listed"
        failures=$((failures + 1))
    }
}

# hold PATH [COMMAND...]: another process holds the lock of PATH, until release.
hold() {
    held=$1
    shift
    rm -f "$work/held"
    "$@" "$probe" hold "$held" >"$work/held" 2>&1 &
    holder=$!
    tries=0
    until grep -qs held "$work/held"; do
        tries=$((tries + 1))
        [ $tries -lt 6000 ] || { echo "FAILED: cannot lock $held"; failures=$((failures + 1)); break; }
        sleep 0.05
    done
}
release() {
    kill "$holder" 2>/dev/null
    wait "$holder" 2>/dev/null
    holder=
}

everything_works() { # everything_works FOLDER, which is empty
    expect TENMAP_OK "$probe" make "$1/m.safetensors"
    expect TENMAP_OK "$probe" open "$1/m.safetensors"
    expect TENMAP_OK "$probe" read "$1/m.safetensors"
    expect TENMAP_OK "$probe" edit "$1/m.safetensors" k one in-place
    expect TENMAP_OK "$probe" edit "$1/m.safetensors" k two copy
    expect two "$probe" value "$1/m.safetensors" k
    expect TENMAP_OK "$probe" write "$1/m.safetensors"
    names "$1" m.safetensors
    mkdir "$1/set"
    expect TENMAP_OK "$probe" save "$1/set"
    expect TENMAP_OK "$probe" save "$1/set"
    expect TENMAP_OK "$probe" open "$1/set"
    names "$1" m.safetensors set
}


overlay_with() { # overlay_with OPTIONS LOWER-TYPE: a model in the lower layer
    mkdir lower upper seen
    mount -t tmpfs -o size=20m upper upper && mkdir upper/u upper/w
    [ "$2" = tmpfs ] && mount -t tmpfs -o size=20m lower lower
    expect TENMAP_OK "$probe" make lower/m.safetensors
    cp lower/m.safetensors before
    if mount -t overlay -o "lowerdir=lower,upperdir=upper/u,workdir=upper/w$1" overlay seen 2>/dev/null; then
        echo "overlay, options \"$1\", lower layer on $2"
        expect TENMAP_OK "$probe" open seen/m.safetensors
        # A reader that holds the lower file open and locked blocks an editor of the upper one.
        hold seen/m.safetensors
        expect "another program is editing" "$probe" edit seen/m.safetensors k one
        release
        expect TENMAP_OK "$probe" edit seen/m.safetensors k one in-place
        expect one "$probe" value seen/m.safetensors k
        same before lower/m.safetensors
        hold seen/m.safetensors
        expect "another program is editing" "$probe" edit seen/m.safetensors k two
        release
        expect TENMAP_OK "$probe" edit seen/m.safetensors k two copy
        expect two "$probe" value seen/m.safetensors k
        expect TENMAP_OK "$probe" write seen/m.safetensors
        same before lower/m.safetensors
        names seen m.safetensors
        mkdir seen/set && everything_works seen/set
        # No room for the copy of a lower file that is to be changed.
        expect TENMAP_OK "$probe" large lower/l.safetensors 15
        cp lower/l.safetensors before_large
        umount seen
        fill=$(df --output=avail upper | tail -1)
        dd if=/dev/zero of=upper/fill bs=1024 count=$((fill - 1024)) 2>/dev/null
        mount -t overlay -o "lowerdir=lower,upperdir=upper/u,workdir=upper/w$1" overlay seen
        expect TENMAP_ERR_NO_SPACE "$probe" edit seen/l.safetensors k one
        expect TENMAP_OK "$probe" open seen/l.safetensors
        names seen l.safetensors m.safetensors set
        umount seen
    else
        echo "overlay, options \"$1\": not here"
    fi
    [ "$2" = tmpfs ] && umount lower
    umount upper
    rm -rf lower upper seen
}

place_overlay() {
    grep -q overlay /proc/filesystems || skip "the kernel has no overlayfs"
    overlay_with "" disk
    overlay_with ",xino=off" disk
    overlay_with ",xino=on,index=on" disk
    overlay_with ",metacopy=on,redirect_dir=on" disk
    overlay_with "" tmpfs
}

place_tmpfs() {
    mkdir t
    mount -t tmpfs -o size=4m t t || skip "tmpfs cannot be mounted here"
    everything_works t
    rm -rf t/set
    cp t/m.safetensors before
    expect TENMAP_ERR_NO_SPACE "$probe" large t/m.safetensors 8
    expect TENMAP_ERR_NO_SPACE "$probe" save t 3
    same before t/m.safetensors
    names t m.safetensors
}

# The quota of q/own is small: 1 MiB for the second user of an ext4, 4 MiB for a subvolume of a
# btrfs.
place_quota_ext4() {
    command -v setquota >/dev/null || skip "setquota (the package quota) is not here"
    command -v mkfs.ext4 >/dev/null || skip "mkfs.ext4 (e2fsprogs) is not here"
    second_user
    truncate -s 64M disk
    mkfs.ext4 -q -O quota -E quotatype=usrquota disk || skip "mkfs.ext4 makes no quota"
    mkdir q
    mount -o loop,usrquota disk q 2>/dev/null || skip "the kernel has no quota for ext4 (CONFIG_QFMT_V2)"
    mkdir q/own && chown 65534 q/own
    setquota -u 65534 1024 1024 0 0 q || skip "no quota can be set here"
    quota_is_told
}

place_quota_btrfs() {
    command -v mkfs.btrfs >/dev/null || skip "mkfs.btrfs (btrfs-progs) is not here"
    second_user
    truncate -s 200M disk
    mkfs.btrfs -q disk >/dev/null 2>&1 || skip "mkfs.btrfs does not work here"
    mkdir q
    mount -o loop disk q 2>/dev/null || skip "btrfs cannot be mounted here"
    btrfs quota enable q && btrfs subvolume create q/own >/dev/null && btrfs qgroup limit 4M q/own ||
        skip "no quota can be set on btrfs here"
    chown 65534 q/own
    quota_is_told
}

# The error names the quota, the existing files are unchanged, and nothing else is left.
quota_is_told() {
    other_expects TENMAP_OK make q/own/m.safetensors
    cp q/own/m.safetensors before
    other_expects TENMAP_ERR_NO_SPACE large q/own/m.safetensors 8
    other_expects quota large q/own/n.safetensors 8
    other_expects TENMAP_ERR_NO_SPACE save q/own 6
    same before q/own/m.safetensors
    names q/own m.safetensors
    other dd if=/dev/zero of=q/own/fill bs=4096 count=4000 2>/dev/null
    sync -f q
    other_expects TENMAP_ERR_NO_SPACE edit q/own/m.safetensors k one copy
    other_expects TENMAP_ERR_NO_SPACE edit q/own/m.safetensors k one
    other_expects TENMAP_ERR_NO_SPACE save q/own
    same before q/own/m.safetensors
    names q/own fill m.safetensors
}

# Files that are immutable, or append-only.
place_attributes() {
    command -v chattr >/dev/null || skip "chattr (e2fsprogs) is not here"
    mkdir a
    expect TENMAP_OK "$probe" make a/m.safetensors
    cp a/m.safetensors before
    for flag in i a; do
        chattr +$flag a/m.safetensors 2>/dev/null || skip "this file system has no chattr +$flag"
        expect TENMAP_OK "$probe" open a/m.safetensors
        expect TENMAP_OK "$probe" read a/m.safetensors
        expect "not permitted" "$probe" edit a/m.safetensors k one
        expect "not permitted" "$probe" edit a/m.safetensors k one copy
        expect "not permitted" "$probe" write a/m.safetensors
        same before a/m.safetensors
        names a m.safetensors
        chattr -$flag a/m.safetensors
    done
    # A folder that accepts no new name, neither of a temporary file nor of an undo record.
    chattr +i a
    expect "not permitted" "$probe" edit a/m.safetensors k one
    expect "not permitted" "$probe" write a/m.safetensors
    expect "not permitted" "$probe" save a
    chattr -i a
    same before a/m.safetensors
    names a m.safetensors
    # An old model that cannot be removed: the new one is written, and the error says what hides it.
    cp a/m.safetensors a/model.safetensors
    chattr +i a/model.safetensors
    expect "still opens as the old model" "$probe" save a
    expect TENMAP_OK "$probe" open a
    chattr -i a/model.safetensors
    expect TENMAP_OK "$probe" save a
    [ ! -e a/model.safetensors ] || { echo "FAILED: the old model is there"; failures=$((failures + 1)); }
    [ "$(ls a | wc -l)" = 4 ] || { echo "FAILED: rests:" a/*; failures=$((failures + 1)); }
}

place_read_only() {
    mkdir r
    mount -t tmpfs r r || skip "tmpfs cannot be mounted here"
    expect TENMAP_OK "$probe" make r/m.safetensors
    mkdir r/set
    expect TENMAP_OK "$probe" save r/set
    mount -o remount,ro r
    expect TENMAP_OK "$probe" open r/m.safetensors
    expect TENMAP_OK "$probe" read r/set
    for what in "edit r/m.safetensors k one" "edit r/m.safetensors k one copy" "write r/m.safetensors" \
        "write r/n.safetensors" "save r/set" "save r"; do
        # shellcheck disable=SC2086 # words
        expect "read-only" "$probe" $what
    done
    expect TENMAP_OK "$probe" repair r/m.safetensors
}

# Two users share a folder: root and 65534.
place_users() {
    second_user
    mkdir shared && chmod 1777 shared
    expect TENMAP_OK "$probe" make shared/m.safetensors
    cp shared/m.safetensors before

    # Names of temporary files, planted by the other user: not followed, not waited for, not
    # trusted.
    victim=$work/victim && echo precious >victim && chmod 644 victim
    name() { printf 'shared/.m.safetensors.tenmap-%016x.tmp' "$1"; }
    other ln -s "$victim" "$(name 1)"
    other mkfifo "$(name 2)"
    other mkdir "$(name 3)"
    other sh -c "echo x >'$(name 4)'"
    other sh -c "echo x >'$(name 5)'; chmod 0 '$(name 5)'"
    hold "$(name 4)" setpriv --reuid 65534 --regid 65534 --clear-groups
    expect TENMAP_OK "$probe" write shared/m.safetensors
    expect TENMAP_OK "$probe" edit shared/m.safetensors k one in-place
    expect TENMAP_OK "$probe" edit shared/m.safetensors k two copy
    [ "$(cat victim)" = precious ] || { echo "FAILED: a link was followed"; failures=$((failures + 1)); }
    [ -e "$(name 4)" ] || { echo "FAILED: a locked temporary was removed"; failures=$((failures + 1)); }
    release
    rm -rf shared/.m.*
    names shared m.safetensors

    # In a sticky folder, the other user cannot replace a file that it does not own, and leaves
    # nothing.
    cp shared/m.safetensors before
    other_expects "not permitted" write shared/m.safetensors
    other_expects "not permitted" edit shared/m.safetensors k three
    same before shared/m.safetensors
    names shared m.safetensors

    # An undo record that the other user planted: a user who owns neither cannot remove it; root
    # can.
    other sh -c 'echo x >shared/.m.safetensors.tenmap-undo'
    chmod 666 shared/m.safetensors && chown 65533 shared/m.safetensors
    expect "record" setpriv --reuid 65533 --regid 65533 --clear-groups "$probe" edit \
        shared/m.safetensors k three
    same before shared/m.safetensors
    expect TENMAP_OK "$probe" open shared/m.safetensors
    expect TENMAP_OK "$probe" edit shared/m.safetensors k v
    chown 0 shared/m.safetensors && chmod 644 shared/m.safetensors
    names shared m.safetensors

    # While the other user holds the lock, an edit and a save are refused at once, but writing is
    # not.
    cp shared/m.safetensors before
    hold shared/m.safetensors setpriv --reuid 65534 --regid 65534 --clear-groups
    expect "another program is editing" "$probe" edit shared/m.safetensors k three
    expect TENMAP_OK "$probe" open shared/m.safetensors
    same before shared/m.safetensors
    expect TENMAP_OK "$probe" write shared/m.safetensors
    release
    mkdir shared/set
    hold shared/set setpriv --reuid 65534 --regid 65534 --clear-groups
    expect "another program is saving" "$probe" save shared/set
    names shared/set
    release
    rmdir shared/set

    # Missing permissions.
    mkdir closed && cp shared/m.safetensors closed && chown -R 65534 closed && chmod 555 closed
    cp closed/m.safetensors before
    other_expects TENMAP_OK open closed/m.safetensors
    other_expects "permission denied" edit closed/m.safetensors k three
    other_expects "permission denied" edit closed/m.safetensors k three copy
    other_expects "permission denied" write closed/m.safetensors
    other_expects "permission denied" save closed
    same before closed/m.safetensors
    names closed m.safetensors
    chmod 755 closed
    chmod 200 closed/m.safetensors
    other_expects "permission denied" open closed/m.safetensors
    other_expects "permission denied" read closed/m.safetensors
    other_expects "permission denied" edit closed/m.safetensors k three
    other_expects "permission denied" check closed/m.safetensors
    same before closed/m.safetensors
    chmod 444 closed/m.safetensors # its folder is writable: a new file replaces it
    other_expects TENMAP_OK edit closed/m.safetensors k three copy
    [ "$(stat -c %a closed/m.safetensors)" = 444 ] || { echo "FAILED: mode"; failures=$((failures + 1)); }
    names closed m.safetensors
}

case $place in
overlay | tmpfs | quota_ext4 | quota_btrfs | attributes | read_only | users) "place_$place" ;;
*) echo "no such place: $place" && exit 1 ;;
esac
[ $failures -eq 0 ] || { echo "$place: $failures failures" && exit 1; }
echo "$place: all as promised"
