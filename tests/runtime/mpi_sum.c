/* An MPI program as a user would write it. The ranks sum their rank numbers plus one and print the
   sum. The rank named by an argument then fails: with "2", rank 2 exits with code 3. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <mpi.h>

int main(int argc, char** argv) {
  int rank = 0, size = 0, sum = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int mine = rank + 1;
  MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  const char* wish = getenv("MPI_SUM_WISH");
  printf("rank %d of %d on %s: sum %d, wish %s\n", rank, size, host, sum, wish ? wish : "none");
  fflush(stdout);
  if (argc > 1 && atoi(argv[1]) == rank) {
    fprintf(stderr, "rank %d gives up\n", rank);
    exit(3);
  }
  MPI_Finalize();
  return sum == size * (size + 1) / 2 ? 0 : 1;
}
