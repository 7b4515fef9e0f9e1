"""`python -m learners` compiles every kernel into the cache, so that the first start needs no compilation."""

from learners.registry import warm_up

if __name__ == "__main__":
    warm_up()
