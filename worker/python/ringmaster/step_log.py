class StepLog:
    def __getattr__(self,n): return lambda *a: None
