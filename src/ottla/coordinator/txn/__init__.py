"""The transaction coordinator: transactional ids, their producers, and which partitions a transaction has touched."""
