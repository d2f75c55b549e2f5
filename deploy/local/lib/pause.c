// The pause container: keeps a Pod's namespaces open, reaps orphans, ends at once when told to.
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
