/* Preloaded into a store: delays writes to files, and flushes ten times longer, by the microseconds in SLOW_DISK_FILE. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static volatile const int *delay;

__attribute__((constructor)) static void open_control(void) {
    const char *path = getenv("SLOW_DISK_FILE");
    int control = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *page = control < 0 ? MAP_FAILED : mmap(NULL, sizeof(int), PROT_READ, MAP_SHARED, control, 0);
    delay = page == MAP_FAILED ? NULL : page;
}

static void wait_for_disk(int file, long times) {
    struct stat about;
    long nanoseconds = delay ? *delay * 1000L * times : 0;
    if (nanoseconds > 0 && fstat(file, &about) == 0 && S_ISREG(about.st_mode)) {
        struct timespec pause = {nanoseconds / 1000000000L, nanoseconds % 1000000000L};
        nanosleep(&pause, NULL);
    }
}

ssize_t write(int file, const void *data, size_t size) {
    static ssize_t (*real)(int, const void *, size_t);
    if (!real) real = dlsym(RTLD_NEXT, "write");
    wait_for_disk(file, 1);
    return real(file, data, size);
}

int fsync(int file) {
    static int (*real)(int);
    if (!real) real = dlsym(RTLD_NEXT, "fsync");
    wait_for_disk(file, 10);
    return real(file);
}

int fdatasync(int file) {
    static int (*real)(int);
    if (!real) real = dlsym(RTLD_NEXT, "fdatasync");
    wait_for_disk(file, 10);
    return real(file);
}
