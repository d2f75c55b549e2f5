class Keeper:
    @staticmethod
    def open(*a): return None
