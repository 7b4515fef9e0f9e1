/* Preloaded into a store: notes what has reached the disk. For each file, by inode, FLUSHED_FOLDER has a file with its
   size at the begin of the last flush that succeeded. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static int flush(int file, const char *name) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    const char *folder = getenv("FLUSHED_FOLDER");
    struct stat about;
    int known = folder && fstat(file, &about) == 0 && S_ISREG(about.st_mode), result = real(file);
    if (known && result == 0) {
        char path[4096], next[4100];
        snprintf(path, sizeof path, "%s/%llu", folder, (unsigned long long)about.st_ino);
        snprintf(next, sizeof next, "%s.new", path);
        int note = open(next, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (note >= 0) {
            dprintf(note, "%lld", (long long)about.st_size);
            close(note);
            rename(next, path);
        }
    }
    return result;
}

int fsync(int file) { return flush(file, "fsync"); }

int fdatasync(int file) { return flush(file, "fdatasync"); }
