/* A stand-in for libcudart.so.12: of its calls those that a load of matrix products makes. There is no
   memory behind its pointers, and no time passes but the simulated that events tell. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS, NO_DEVICE = 100, INVALID_DEVICE = 101, MOST_GPUS = 16 };

static struct { double tflops; int wrong; } gpus[MOST_GPUS];
static int found = -1, current, copied_back;
static double now_ms;
static char problem[200] = "no CUDA-capable device is detected";

/* The board, as the stand-in tools read it: `gpu TFLOPS WRONG` for each, or why no program starts. */
static void ask(void)
{
    char command[300], line[200];
    const char *run = getenv("NODEPREP_SIM_ENTRY");
    FILE *answer;

    if (found >= 0)
        return;
    found = 0;
    snprintf(command, sizeof command, "%s cublas", run ? run : "/usr/lib/nodeprep-sim/run");
    answer = popen(command, "r");
    while (answer && fgets(line, sizeof line, answer)) {
        if (found < MOST_GPUS
            && sscanf(line, "gpu %lf %d", &gpus[found].tflops, &gpus[found].wrong) == 2)
            found++;
        else if (sscanf(line, "problem %199[^\n]", problem) == 1)
            break;
    }
    if (answer)
        pclose(answer);
}

/* What libcublas.so.12 tells of its work. */
void nodeprep_sim_work(double operations)
{
    now_ms += operations / gpus[current].tflops / 1e9;
}

const char *cudaGetErrorString(int error)
{
    return error == INVALID_DEVICE ? "invalid device ordinal" : error ? problem : "no error";
}

int cudaSetDevice(int device)
{
    ask();
    if (!found)
        return NO_DEVICE;
    if (device < 0 || device >= found)
        return INVALID_DEVICE;
    current = device;
    return SUCCESS;
}

int cudaMalloc(void **pointer, size_t size)
{
    static size_t next = 0x700000000000;
    *pointer = (void *)next;
    next += size;
    return SUCCESS;
}

int cudaMemset(void *pointer, int value, size_t size)
{
    (void)pointer, (void)value, (void)size;
    return SUCCESS;
}

/* What a GPU that computes wrongly gives back first has one bit that is another; the rest is right. */
int cudaMemcpy(void *to, const void *from, size_t size, int kind)
{
    (void)from;
    if (kind == 2) {
        memset(to, 0x3f, size);
        if (gpus[current].wrong && !copied_back++)
            *(char *)to ^= 1;
    }
    return SUCCESS;
}

int cudaEventCreate(double **event)
{
    *event = calloc(1, sizeof **event);
    return SUCCESS;
}

int cudaEventRecord(double *event, void *stream)
{
    (void)stream;
    *event = now_ms;
    return SUCCESS;
}

int cudaEventSynchronize(double *event)
{
    (void)event;
    return SUCCESS;
}

int cudaEventElapsedTime(float *ms, const double *begin, const double *end)
{
    *ms = (float)(*end - *begin);
    return SUCCESS;
}
