/* A stand-in for libnvidia-ml.so.1. Every answer stands in the file that TIDEGATE_FAKE_NVML names, which is read at
 * each call, so that a test changes the world while its subject runs. A line is
 *
 *     SYMBOL PLACE FROM_CALL CODE HANG_SECONDS VALUES...
 *
 * PLACE is - (no card), 3 (the card at index 3) or 3.1 (its MIG device in slot 1). The last line that fits answers;
 * FROM_CALL counts the calls of that symbol at that place in this process, from 1. What no line answers is
 * NVML_ERROR_NOT_SUPPORTED. HANG_SECONDS below 0 lasts until the line changes. CODE -1 is a segmentation fault.
 * Each call is appended to the file's name plus .log as PID SYMBOL PLACE, and to its name plus .hangs once it hangs.
 *
 * With -DOLD the library is one from before MIG and memory version 2. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, UNINITIALIZED = 1, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7, UNKNOWN = 999 };
enum { MOST_COUNTERS = 1024 };

typedef unsigned long long u64;
struct answer { int code; double hang; char text[256]; u64 n[8]; };
struct counter { char key[96]; int calls; };

static int initialised;
static struct counter counters[MOST_COUNTERS];

static int count_call(const char *symbol, const char *place) {
    char key[96];
    snprintf(key, sizeof key, "%s %s", symbol, place);
    int i = 0;
    while (i < MOST_COUNTERS - 1 && counters[i].key[0] && strcmp(counters[i].key, key)) i++;
    strcpy(counters[i].key, key);
    return ++counters[i].calls;
}

static void log_call(const char *ending, const char *symbol, const char *place) {
    char name[512];
    snprintf(name, sizeof name, "%s%s", getenv("TIDEGATE_FAKE_NVML"), ending);
    FILE *log = fopen(name, "a");
    if (!log) return;
    fprintf(log, "%d %s %s\n", getpid(), symbol, place);
    fclose(log);
}

/* The last line that fits call number `call`; NOT_SUPPORTED without one. */
static void look_up(const char *symbol, const char *place, int call, struct answer *a) {
    char line[512], s[96], p[16];
    int from, used;
    struct answer one;
    memset(a, 0, sizeof *a);
    a->code = NOT_SUPPORTED;
    FILE *file = fopen(getenv("TIDEGATE_FAKE_NVML"), "r");
    if (!file) return;
    while (fgets(line, sizeof line, file)) {
        memset(&one, 0, sizeof one);
        if (sscanf(line, "%95s %15s %d %d %lf %n", s, p, &from, &one.code, &one.hang, &used) < 5) continue;
        if (strcmp(s, symbol) || strcmp(p, place) || from > call) continue;
        snprintf(one.text, sizeof one.text, "%.*s", (int)strcspn(line + used, "\n"), line + used);
        *a = one;
    }
    fclose(file);
    char *rest = a->text;
    for (int i = 0; i < 8; i++) a->n[i] = strtoull(rest, &rest, 0);
}

static int ask_at(const char *symbol, const char *place, struct answer *a) {
    int call = count_call(symbol, place);
    log_call(".log", symbol, place);
    look_up(symbol, place, call, a);
    if (a->hang) log_call(".hangs", symbol, place);
    for (double slept = 0; a->hang < 0 || slept < a->hang; slept += 0.01) {
        usleep(10000);
        look_up(symbol, place, call, a);
    }
    if (a->code == -1) raise(SIGSEGV);
    if (!initialised && strncmp(symbol, "nvmlInit", 8)) return UNINITIALIZED;
    return a->code;
}

static void *handle_of(unsigned index, int slot) { return (void *)(uintptr_t)((index + 1) * 1000 + slot + 1); }

static int ask(const char *symbol, void *handle, struct answer *a) {
    char place[32];
    unsigned number = (uintptr_t)handle, slot = number % 1000;
    snprintf(place, sizeof place, slot ? "%u.%u" : "%u", number / 1000 - 1, slot - 1);
    return ask_at(symbol, place, a);
}

static int initialise(const char *symbol) {
    struct answer a;
    int code = ask_at(symbol, "-", &a);
    if (code == SUCCESS) initialised++;
    return code;
}

int nvmlInit_v2(void) { return initialise(__func__); }

int nvmlShutdown(void) {
    struct answer a;
    int code = ask_at(__func__, "-", &a);
    if (code == SUCCESS) initialised--;
    return code;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    struct answer a;
    int code = ask_at(__func__, "-", &a);
    if (code == SUCCESS) *count = a.n[0];
    return code;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    struct answer a;
    *handle = handle_of(index, -1);
    return ask(__func__, *handle, &a);
}

static int text(const char *symbol, void *handle, char *out, unsigned size) {
    struct answer a;
    int code = ask(symbol, handle, &a);
    if (code == SUCCESS) snprintf(out, size, "%s", a.text);
    return code;
}

static int numbers(const char *symbol, void *handle, unsigned *first, unsigned *second) {
    struct answer a;
    int code = ask(symbol, handle, &a);
    if (code == SUCCESS) *first = a.n[0];
    if (code == SUCCESS && second) *second = a.n[1];
    return code;
}

int nvmlDeviceGetUUID(void *h, char *out, unsigned size) { return text(__func__, h, out, size); }
int nvmlDeviceGetName(void *h, char *out, unsigned size) { return text(__func__, h, out, size); }
int nvmlDeviceGetPowerUsage(void *h, unsigned *mw) { return numbers(__func__, h, mw, NULL); }
int nvmlDeviceGetUtilizationRates(void *h, unsigned *rates) { return numbers(__func__, h, rates, rates + 1); }

/* total free used */
int nvmlDeviceGetMemoryInfo(void *h, u64 *memory) {
    struct answer a;
    int code = ask(__func__, h, &a);
    if (code == SUCCESS) memcpy(memory, a.n, 3 * sizeof *memory);
    return code;
}

int nvmlDeviceGetTotalEccErrors(void *h, int kind, int counter, u64 *count) {
    struct answer a;
    int code = ask(__func__, h, &a);
    (void)counter;
    if (code == SUCCESS) *count = kind == 1 ? a.n[0] : 12345; /* uncorrected, corrected */
    return code;
}

/* pid bytes; a count above 1 repeats the pair without writing past the caller's array. */
struct process { unsigned pid; u64 bytes; unsigned gpu_instance, compute_instance; };
int nvmlDeviceGetComputeRunningProcesses_v3(void *h, unsigned *count, struct process *list) {
    struct answer a;
    int code = ask(__func__, h, &a);
    if (code != SUCCESS) return code;
    unsigned room = *count;
    *count = a.n[2];
    if (room < *count) return INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < *count; i++) list[i] = (struct process){a.n[0], a.n[1], 0xFFFFFFFF, 0xFFFFFFFF};
    return SUCCESS;
}

#ifdef OLD
int nvmlDeviceGetTemperature(void *h, int sensor, unsigned *celsius) {
    (void)sensor;
    return numbers(__func__, h, celsius, NULL);
}
#else
int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    return initialise(__func__);
}

#ifndef NEWEST
int nvmlDeviceGetTemperature(void *h, int sensor, unsigned *celsius) {
    (void)sensor;
    return numbers(__func__, h, celsius, NULL);
}
#endif

struct temperature { unsigned version; int sensor, celsius; };
int nvmlDeviceGetTemperatureV(void *h, struct temperature *t) {
    return numbers("nvmlDeviceGetTemperature", h, (unsigned *)&t->celsius, NULL);
}

/* total reserved free used */
struct memory_v2 { unsigned version; u64 total, reserved, free, used; };
int nvmlDeviceGetMemoryInfo_v2(void *h, struct memory_v2 *memory) {
    struct answer a;
    int code = ask(__func__, h, &a);
    if (code == SUCCESS) *memory = (struct memory_v2){memory->version, a.n[0], a.n[1], a.n[2], a.n[3]};
    return code;
}

int nvmlDeviceGetMigMode(void *h, unsigned *current, unsigned *pending) {
    return numbers(__func__, h, current, pending);
}

int nvmlDeviceGetMaxMigDeviceCount(void *h, unsigned *count) { return numbers(__func__, h, count, NULL); }

int nvmlDeviceGetMigDeviceHandleByIndex(void *h, unsigned slot, void **device) {
    struct answer a;
    unsigned number = (uintptr_t)h;
    *device = handle_of(number / 1000 - 1, slot);
    return ask(__func__, *device, &a);
}
#endif
