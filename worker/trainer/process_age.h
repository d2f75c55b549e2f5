#pragma once

// How long this process has existed, loading its libraries included.

namespace ringmaster::trainer {

// From /proc, to 10 ms; 0 where there is none.
double ProcessAgeMillis();

}  // namespace ringmaster::trainer
