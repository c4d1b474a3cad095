/* The process that holds a pod's namespaces: it waits for a signal to end, and collects children that others left. */
#include <signal.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    sigset_t set;
    int signal;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    while (sigwait(&set, &signal) == 0 && signal == SIGCHLD)
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
    return 0;
}
