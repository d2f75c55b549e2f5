// The pause container: keeps a Pod's namespaces open, reaps orphans, and ends on SIGTERM or SIGINT.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void End(int signal_number) {
  (void)signal_number;
  _exit(0);
}

static void Reap(int signal_number) {
  (void)signal_number;
  while (waitpid(-1, 0, WNOHANG) > 0) {
  }
}

int main(void) {
  signal(SIGINT, End);
  signal(SIGTERM, End);
  signal(SIGCHLD, Reap);
  for (;;) pause();
}
